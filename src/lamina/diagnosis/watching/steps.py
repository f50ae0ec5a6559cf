"""Every step of a watch, observed or not: its loss, the gradient norm of every parameter, and the learning rate.

The norms are taken at the end of the backward pass, before the gradient is clipped. They stay on the device and are
read every few steps, so that no step waits for the device; on a CPU they are read at once. Gradients that are NaN or
infinite show in the same numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import Variable
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Partial, Replicate
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from lamina.diagnosis.watching.spikes import BatchIdentity

READ_EVERY = 10
"""The number of steps after which the numbers are read from a device other than the CPU."""
LOSS_SCALE = 64.0
"""Gradients that are at the step this many times smaller than after the backward pass were divided by the loss scale of
a `GradScaler`; clipping hardly ever makes them that much smaller."""
MOST_KEPT = 2**24
"""The largest number of bytes of a batch that is kept until its step is read."""

BatchSource = Callable[[], BatchIdentity] | Sequence[int] | None
"""What identifies a batch: the indices of its examples, or a function that is called only if they are needed."""


@dataclass(frozen=True)
class StepValues:
    """The numbers of one step."""

    step: int
    loss: float | None
    """None if it is unknown."""
    gradient_norm: float
    """The norm of the gradient of all parameters, before clipping."""
    learning_rate: float | None
    """That of the first group of parameters; None if it is kept on a device."""
    norms: NDArray[np.float64]
    """The gradient norm of every parameter, in the order of `StepRecorder.parameters`; 0 without a gradient."""
    batch: Callable[[], BatchIdentity | None]

    @property
    def is_finite(self) -> bool:
        """Whether all gradients are finite."""
        return bool(np.isfinite(self.norms).all())


@dataclass(frozen=True, eq=False)
class _Unread:
    """The numbers of one step on the device."""

    step: int
    loss: Tensor | float | None
    gradient_norm: float | None
    learning_rate: float | None
    norms: Tensor
    """(parameters + 2,): the norms, and one parameter's after the backward pass and at the step."""
    batch: Callable[[], BatchIdentity | None]


class StepRecorder:
    """Records every step of an optimiser, by one hook on the model and one on a few parameters."""

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimizer,
        lowest: Sequence[nn.Parameter],
        read_every: int | None = None,
    ) -> None:
        """lowest: parameters of the lowest layers, which get their gradient last.

        read_every: the number of steps after which numbers are read; None for 1 on a CPU and `READ_EVERY` elsewhere.
        """
        self.optimiser, self._lowest = optimiser, lowest
        optimised = {id(each) for group in optimiser.param_groups for each in group["params"]}
        named = [(path, each) for path, each in model.named_parameters() if each.requires_grad]
        self.paths = [path for path, each in named if id(each) in optimised]
        self.parameters = [each for _, each in named if id(each) in optimised]
        on_cpu = all(each.device.type == "cpu" for each in self.parameters)
        self.read_every = read_every or (1 if on_cpu else READ_EVERY)
        self._unread: list[_Unread] = []
        self._norms: Tensor | None = None
        self._measured = 0
        self._losses: list[Tensor] = []
        self._shares = False
        self._given: tuple[float | Tensor | None, float | None, BatchSource] = (None, None, None)
        self._arguments: Sequence[Any] = ()
        self._handles: list[RemovableHandle] = [model.register_forward_hook(self._after_forward, with_kwargs=True)]
        for each in lowest:
            self._handles.append(each.register_post_accumulate_grad_hook(self._in_backward))  # type: ignore[no-untyped-call]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._norms, self._arguments = None, ()

    def record(
        self, loss: float | Tensor | None = None, gradient_norm: float | None = None, batch: BatchSource = None
    ) -> None:
        """What a training loop knows about the step that comes next; a loss replaces that of the model's output."""
        self._given = loss, gradient_norm, batch

    @torch.no_grad()
    def before_step(self, step: int, *, read: bool = False) -> list[StepValues]:
        """Add the step that is about to be taken; returns the steps that were read, this one last; often none.

        read: whether to read now, as in a step that is observed, which waits for the device in any case.
        """
        present = sum(each.grad is not None for each in self.parameters)
        if self._norms is None or present != self._measured:  # no hook was called, or in a part of the backward pass
            self._measure()
        norms, self._norms = self._norms, None
        assert norms is not None
        probe = next((each for each in self._lowest if each.grad is not None), None)
        at_step = norms[-1:] if probe is None else _norms([probe]).to(norms.device, norms.dtype)
        loss, gradient_norm, batch = self._given
        if loss is None:
            loss = self._loss_of_outputs()
        rate = self.optimiser.param_groups[0]["lr"]
        self._unread.append(
            _Unread(
                step=step,
                loss=loss.detach() if isinstance(loss, Tensor) else loss,
                gradient_norm=gradient_norm,
                learning_rate=None if isinstance(rate, Tensor) else float(rate),
                norms=torch.cat([norms, at_step]),
                batch=_identify(batch, self._arguments),
            )
        )
        self._given, self._losses, self._shares = (None, None, None), [], False
        return self.read() if read or len(self._unread) >= self.read_every else []

    def read(self) -> list[StepValues]:
        """Read all steps that have not been read, with one transfer from the device."""
        unread, self._unread = self._unread, []
        if not unread:
            return []
        device, precision = unread[0].norms.device, unread[0].norms.dtype
        losses = [each.loss if isinstance(each.loss, Tensor) else torch.tensor(nan) for each in unread]
        rows = [
            torch.cat([each.norms, loss.reshape(1).to(device, precision)])
            for each, loss in zip(unread, losses, strict=True)
        ]
        table = torch.stack(rows).cpu().double().numpy()  # (steps, parameters + 3)
        return [self._values(each, row) for each, row in zip(unread, table, strict=True)]

    def _values(self, unread: _Unread, row: NDArray[np.float64]) -> StepValues:
        norms, (after_backward, at_step, loss) = row[:-3], row[-3:]
        if after_backward > LOSS_SCALE * at_step > 0:
            norms = norms * (at_step / after_backward)
        total = unread.gradient_norm
        return StepValues(
            step=unread.step,
            loss=float(loss) if isinstance(unread.loss, Tensor) else unread.loss,
            gradient_norm=float(np.sqrt(np.square(norms).sum())) if total is None else float(total),
            learning_rate=unread.learning_rate,
            norms=norms,
            batch=unread.batch,
        )

    def _after_forward(
        self, model: nn.Module, arguments: tuple[Any, ...], options: Mapping[str, Any], output: Any
    ) -> None:
        if not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:  # a validation, or checkpointing
            return
        self._arguments = (*arguments, *options.values())
        loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if isinstance(loss, Tensor) and loss.numel() == 1:
            self._losses.append(loss.detach())
            self._shares = options.get("num_items_in_batch") is not None

    def _loss_of_outputs(self) -> Tensor | None:
        """The loss of the model's outputs since the last step: their mean, or their sum where they are shares of it."""
        if not self._losses:
            return None
        together = torch.stack([each.reshape(()) for each in self._losses])
        return together.sum() if self._shares else together.mean()

    def _in_backward(self, parameter: Tensor) -> None:
        """Measure when the backward pass has ended, after all that was queued so far, such as DDP's reduction."""
        queue = Variable._execution_engine.queue_callback
        queue(lambda: queue(self._measure))

    @torch.no_grad()
    def _measure(self) -> None:
        self._measured = sum(each.grad is not None for each in self.parameters)
        norms = _norms(self.parameters)
        probe = next((each for each in self._lowest if each.grad is not None), None)
        own = norms.new_zeros(1) if probe is None else _norms([probe]).to(norms.device, norms.dtype)
        self._norms = torch.cat([norms, own])


def _norms(parameters: Sequence[Tensor]) -> Tensor:
    """The norm of every parameter's gradient as one tensor; 0 where there is none."""
    gradients = [each.grad for each in parameters]
    dense = [each for each in gradients if each is not None and not each.is_sparse]
    local = [each.to_local() if isinstance(each, DTensor) else each for each in dense]
    if not local:
        return torch.zeros(len(parameters))
    device = local[0].device
    low = any(each.dtype in (torch.float16, torch.bfloat16) for each in local)
    found = torch._foreach_norm(local, 2, dtype=torch.float32 if low else None)
    precision = max((each.dtype for each in found), key=lambda each: torch.finfo(each).bits)
    together = torch.stack([each.to(device, precision) for each in found])
    sharded = next((each for each in dense if isinstance(each, DTensor)), None)
    if sharded is not None:
        together = _over_shards(together, sharded)
    if len(dense) == len(parameters):
        return together
    places = [at for at, each in enumerate(gradients) if each is not None and not each.is_sparse]
    return together.new_zeros(len(parameters)).index_put_((torch.tensor(places, device=device),), together)


def _over_shards(norms: Tensor, like: DTensor) -> Tensor:
    """The norms of whole tensors from those of this process's shards, with one call of all processes."""
    placements = [Partial() if each.is_shard() else Replicate() for each in like.placements]
    whole = DTensor.from_local(norms.square(), like.device_mesh, placements, run_check=False).full_tensor()
    return whole.sqrt()


def _identify(batch: BatchSource, arguments: Sequence[Any]) -> Callable[[], BatchIdentity | None]:
    """A function that identifies a batch; its tensors are kept until the step is read, unless they are large."""
    if callable(batch):
        return batch
    if batch is not None:
        return lambda: BatchIdentity(examples=tuple(int(each) for each in batch))
    tensors = list(_tensors(arguments))
    small = sum(each.numel() * each.element_size() for each in tensors) <= MOST_KEPT
    return partial(_hash, tensors) if tensors and small else lambda: None


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values.detach()
    elif isinstance(values, Mapping | tuple | list):
        for each in values.values() if isinstance(values, Mapping) else values:
            yield from _tensors(each)


def _hash(tensors: Sequence[Tensor]) -> BatchIdentity:
    """The SHA-256 of the bytes of all tensors that the model was called with, in their order."""
    digest = hashlib.sha256()
    for each in tensors:
        digest.update(each.cpu().contiguous().view(torch.uint8).numpy().tobytes() if each.numel() else b"")
    return BatchIdentity(sha256=digest.hexdigest())
