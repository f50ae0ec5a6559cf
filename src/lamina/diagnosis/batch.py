"""What a user calls a batch and a loss, as passes over a model.

A batch is what the model is called with: a tensor, a tuple (positional arguments) or a dictionary (keywords). A list
holds several. One alone is cut along its first dimension, so that there is a spread.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.passes import Pass
from lamina.diagnosis.recording.structure import puts_batch_first
from lamina.errors import UserError
from lamina.model.heads import WordLosses

Loss = Callable[..., Tensor]

RANDOM_DIRECTION = (
    "no loss was given and the model has none of its own: gradients are those of the mean of the output along one "
    "fixed random direction, which shows how they travel but not what training would do"
)


def passes_over(model: nn.Module, batch: Any, loss: Loss | None, pieces: int, notes: list[str]) -> list[Pass]:
    """One pass for each batch of a list, or for each piece of a single batch; a pass may add to the notes."""
    batches = batch if isinstance(batch, list) else split(batch, pieces) if puts_batch_first(model) else [batch]
    if not batches:
        raise UserError("the list of batches is empty; give at least one batch")
    return [partial(_run, batch=each, loss=loss, notes=notes) for each in batches]


def _run(model: nn.Module, *, batch: Any, loss: Loss | None, notes: list[str]) -> Tensor:
    _check_devices(model, batch)
    if isinstance(batch, Mapping):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, tuple) else model(batch)
    if loss is not None:
        return _given_loss(loss, output, batch)
    own = own_loss(output)
    if own is None:
        notes.append(RANDOM_DIRECTION)
        return along_random_direction(output)
    return own


def _given_loss(loss: Loss, output: Any, batch: Any) -> Tensor:
    arguments = (output, batch) if _takes_two(loss) else (output,)
    try:
        return loss(*arguments)
    except TypeError as error:
        kinds = " and ".join(type(each).__name__ for each in arguments)
        raise UserError(
            f"the loss cannot be called with the output and, where it takes two, the batch ({kinds}): {error}; "
            "pick what it needs from them, as in loss=lambda output, batch: cross_entropy(output, batch['labels'])"
        ) from error


def own_loss(output: Any) -> Tensor | None:
    """The loss that the model computed itself, as those of transformers and Lamina do when they get labels."""
    if isinstance(output, WordLosses):
        return output.smoothed.mean()
    return output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)


def along_random_direction(output: Any) -> Tensor:
    values = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple) else (output,)
    found = [each for each in values if isinstance(each, Tensor) and each.is_floating_point() and each.dim() >= 2]
    if not found:
        raise UserError(
            f"the model returned a {type(output).__name__} without a loss and without a tensor of vectors; give "
            "loss=…, a function of the output (and of the batch, if it takes two) that returns a single number"
        )
    dim = found[0].shape[-1]
    direction = torch.randn(dim, generator=torch.Generator().manual_seed(0)) * dim**-0.5
    return (found[0] @ direction.to(found[0])).mean()


def split(batch: Any, pieces: int) -> list[Any]:
    """Up to `pieces` parts along the first dimension, where all tensors agree on it; else the batch as it is."""
    lengths = {each.shape[0] if each.dim() else 0 for each in tensors_of(batch)}
    if len(lengths) != 1 or (length := lengths.pop()) < 2:
        return [batch]
    bounds = torch.linspace(0, length, min(pieces, length) + 1).long().tolist()
    return [_cut(batch, slice(first, end)) for first, end in pairwise(bounds)]


def tensors_of(batch: Any) -> Iterable[Tensor]:
    values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple | list) else (batch,)
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, Mapping | tuple | list):
            yield from tensors_of(each)


def _cut(batch: Any, rows: slice) -> Any:
    if isinstance(batch, Tensor):
        return batch[rows]
    if isinstance(batch, Mapping):
        return {name: _cut(value, rows) for name, value in batch.items()}
    if not isinstance(batch, tuple | list):
        return batch
    parts = [_cut(value, rows) for value in batch]
    return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)  # a named tuple takes them apart


def _check_devices(model: nn.Module, batch: Any) -> None:
    devices = {parameter.device for parameter in model.parameters()}
    for tensor in tensors_of(batch):
        if tensor.device not in devices and tensor.dim():
            places = ", ".join(str(each) for each in devices)
            raise UserError(f"the model is on {places}, but the batch on {tensor.device}; move one of them with .to(…)")


def _takes_two(function: Loss) -> bool:
    called = function.forward if isinstance(function, nn.Module) else function  # a module's call takes anything
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):  # a builtin does not say
        return False
    required = [each for each in parameters if each.default is each.empty and each.kind in _POSITIONAL]
    return len(required) >= 2


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
