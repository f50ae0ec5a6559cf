"""When one function with a backward pass of its own may replace single operations."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def may_fuse(x: Tensor) -> bool:
    """Whether an operation on x may be part of such a function: in training, on a CPU, in full precision.

    What observes or transforms single operations gets these: compilation, forward derivatives, `torch.func`, and
    torch's function modes, as that of the diagnosis.
    """
    return (
        x.requires_grad
        and x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and torch._C._len_torch_function_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and forward_ad._current_level < 0
    )
