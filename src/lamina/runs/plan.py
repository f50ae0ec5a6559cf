"""The plan of a run: parameters, memory per device, floating-point operations and time.

Nothing is estimated by formula: the model of the config runs one training step on meta tensors, which have shapes but
no values, while the tensors that autograd saves and the operations are counted. Attention is that of torch's kernel;
on a CPU, short sequences keep up to a third less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.backends.cuda import allow_fp16_bf16_reduction_math_sdp, fp16_bf16_reduction_math_sdp_allowed
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from lamina.data.store import Store
from lamina.errors import UserError
from lamina.formatting import count
from lamina.model.transformer import Transformer
from lamina.tasks import build_task
from lamina.tasks.base import Inputs, Task
from lamina.training.config import RunConfig
from lamina.training.length import planned_steps
from lamina.training.precision import DTYPES

WEIGHT_BYTES = 4  # all weights are kept in fp32


@dataclass(frozen=True)
class Plan:
    """The cost of a run: memory in bytes for one device, FLOPs of all devices together.

    With `parallel = "fsdp"` a device holds its shard of weights, gradients and optimiser state. The layer that is being
    computed, and the embedding tables, are gathered for a while: that is not counted.
    """

    parameters: int
    weights: int
    gradients: int
    optimiser: int
    activations: int
    activations_checkpointed: int
    tokens_per_step: int
    size_unit: str
    """What a step counts: tokens, or frames of speech."""
    flops_per_step: int
    steps: int
    """The number of steps of the whole run."""
    epochs: float
    """The number of epochs that these steps are."""
    seconds: float
    """The time of the whole run, at the given efficiency."""
    assumptions: tuple[str, ...]
    """What the numbers rest on, as sentences."""

    @property
    def memory(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.activations

    @property
    def memory_checkpointed(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.activations_checkpointed


def make_plan(
    config: RunConfig, store: Store, *, devices: int = 1, teraflops: float = 100.0, efficiency: float = 0.4
) -> Plan:
    """Plan a run.

    teraflops: the peak performance of one device in the precision that is used.
    efficiency: the share of the peak performance that is reached.
    """
    if config.model.adaptive_cutoffs:
        raise UserError(
            "a model with adaptive_cutoffs cannot be planned: its cost depends on the frequency of the words"
        )
    task = build_task(config.task, store, config.task_options)
    batches = task.batches("train", config.data, processes=devices * config.train.accumulate)
    epoch = batches.plan.epoch(0)
    whole = epoch[len(epoch) // 2]
    inputs = task.inputs(batches.batch(0, len(epoch) // 2)).to("meta")
    saved_bytes = {}
    for checkpointed in (False, True):
        with torch.device("meta"):
            chosen = config.model.model_copy(update={"checkpoint_layers": checkpointed})
            model = Transformer.build(task.model_options(chosen)).train()
        task.calibrate(model, inputs)
        with SavedTensors(model) as saved, cast_products(DTYPES[config.train.precision]):
            task.losses(model, inputs)
        saved_bytes[checkpointed] = saved.bytes
        if checkpointed == config.model.checkpoint_layers:
            flops = _flops_of_a_step(task, model, inputs) * devices * config.train.accumulate
    parameters = model.num_parameters()
    order = task.plan("train", config.data, config.seed)
    steps, batches_per_epoch = planned_steps(config, order), len(order.epoch(0))
    epochs = config.train.epochs or steps / batches_per_epoch
    per_second = devices * teraflops * 1e12 * efficiency
    held = math.ceil(WEIGHT_BYTES * parameters / (devices if config.train.parallel == "fsdp" else 1))
    return Plan(
        parameters=parameters,
        weights=held,
        gradients=held,
        optimiser=held * config.optimiser.choose().state_tensors(),
        activations=saved_bytes[False],
        activations_checkpointed=saved_bytes[True],
        size_unit=task.size_unit,
        tokens_per_step=config.data.max_tokens or round(batches.plan.sizes.mean() * len(whole)),
        flops_per_step=flops,
        steps=steps,
        epochs=epochs,
        seconds=steps * flops / per_second,
        assumptions=(
            f"Time: {count(devices, 'device')} of {teraflops:,.4g} teraFLOP/s each in {config.train.precision}, of "
            f"which {efficiency:.0%} is reached; validation, checkpoints and communication take none.",
            "Memory: weights, gradients and optimiser state in fp32; activations of a batch of middle length; what the "
            "allocator and the kernels keep for themselves is not counted.",
            f"Length: {steps:,} steps, which are {epochs:,.4g} epochs of {count(batches_per_epoch, 'batch')}; "
            "operations are counted on one batch of the training data.",
        ),
    )


def _flops_of_a_step(task: Task, model: Transformer, inputs: Inputs) -> int:
    """The FLOPs of a forward and backward pass, including recomputation by activation checkpointing."""
    with FlopCounterMode(display=False) as counter:
        torch.autograd.backward(task.losses(model, inputs).smoothed)
    return counter.get_total_flops()


class SavedTensors(torch.autograd.graph.saved_tensors_hooks):
    """Counts the bytes that autograd saves for the backward pass, without weights, each tensor once."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._seen: dict[Any, int] = {_identity(each): 0 for each in (*model.parameters(), *model.buffers())}
        super().__init__(self._count, lambda tensor: tensor)

    @property
    def bytes(self) -> int:
        return sum(self._seen.values())

    def _count(self, tensor: Tensor) -> Tensor:
        self._seen.setdefault(_identity(tensor), tensor.untyped_storage().nbytes())
        return tensor

    def __enter__(self) -> SavedTensors:  # type: ignore[override]
        super().__enter__()
        return self


@contextmanager
def cast_products(precision: torch.dtype) -> Iterator[None]:
    """Cast the operands of products as autocast would, which does not support meta tensors."""
    allowed = fp16_bf16_reduction_math_sdp_allowed()  # type: ignore[no-untyped-call]
    allow_fp16_bf16_reduction_math_sdp(True)  # otherwise attention, which has no kernel for meta tensors, stays in fp32
    try:
        with CastOperands(precision):
            yield
    finally:
        allow_fp16_bf16_reduction_math_sdp(allowed)


class CastOperands(TorchFunctionMode):
    def __init__(self, precision: torch.dtype) -> None:
        super().__init__()
        self._precision = precision

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (F.linear, F.scaled_dot_product_attention):
            args = [each.to(self._precision) if isinstance(each, Tensor) else each for each in args]
        return function(*args, **(kwargs or {}))


def _identity(tensor: Tensor) -> Any:
    """The storage, so that views of one tensor are counted once."""
    return tensor.untyped_storage()._cdata
