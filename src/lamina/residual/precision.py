"""Computing in the tensors' own precision where autocast would choose a lower one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    return nullcontext() if x.is_meta else torch.autocast(x.device.type, enabled=False)
