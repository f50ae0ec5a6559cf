"""The subject of a diagnosis: a given model on several batches, or a function that builds one at several seeds.

A batch is what the model is called with: a tensor, a tuple (positional arguments) or a dictionary (keywords). A list
holds several batches. A single batch is split along its first dimension, so that there is a spread.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from lamina.diagnosis.factories import as_factory, as_width_factory, widths_below
from lamina.diagnosis.measurement import Stage
from lamina.diagnosis.measures.base import Factory, OfWidth
from lamina.diagnosis.options import Thresholds
from lamina.diagnosis.recording.layers import unwrap
from lamina.diagnosis.recording.passes import Pass, check_model, random_state_kept
from lamina.diagnosis.recording.structure import puts_batch_first
from lamina.errors import UserError
from lamina.model.heads import WordLosses

Loss = Callable[..., Tensor]

RANDOM_DIRECTION = (
    "no loss was given and the model has none of its own: gradients are those of the mean of the output along one "
    "fixed random direction, which shows how gradients propagate but not what training would do"
)

OUTPUT_DEPTHS = (2, 4, 8, 16)
"""Numbers of layers that are quick to measure. Liu et al. go up to 200 sub-layers."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model or a function that builds one, the passes it is measured on, and what is known of its training."""

    name: str
    passes: Sequence[Pass]
    model: nn.Module | None = None
    """The model; None if there is a factory."""
    factory: Factory | None = None
    """Builds a model for every seed; None if there is a model."""
    any_depth: bool = False
    """Whether the factory can build models of other depths."""
    depths: tuple[int, ...] = OUTPUT_DEPTHS
    """The numbers of layers at which the change of the output is measured."""
    of_width: OfWidth | None = None
    """Builds models of other widths; None if that is not possible."""
    widths: tuple[int, ...] = ()
    """The widths of the coordinate check."""
    optimiser: Optimizer | Callable[[nn.Module], Optimizer] | None = None
    """The optimiser of the model, in the state in which training left it or before its first step, or a function that
    makes one for a model."""
    stage: Stage = Stage(name="start")
    learning_rate: float | None = None
    """The highest learning rate at which Adam will train it; None where it is unknown."""
    warmup: int | None = None
    """The number of steps in which the learning rate rises to that; None where it is unknown."""
    thresholds: Thresholds | None = None
    """The thresholds of the checks; None for the defaults."""
    notes: list[str] = field(default_factory=list)
    """Anything else a reader should know; passes may add to it."""

    def __post_init__(self) -> None:
        if len(set(self.depths)) < 2 or min(self.depths) < 1:
            raise UserError(f"depths are at least two numbers of layers, from 1 up, not {self.depths}")
        if self.learning_rate is not None and not (isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UserError(f"learning_rate is the highest learning rate, above 0, not {self.learning_rate}")
        if self.warmup is not None and self.warmup < 0:
            raise UserError(f"warmup is the number of steps of the warm-up, 0 for none, not {self.warmup}")

    def optimiser_of(self, model: nn.Module) -> Optimizer | None:
        """The optimiser that trains this model, if it is known."""
        return self.optimiser if isinstance(self.optimiser, Optimizer | None) else self.optimiser(model)

    @property
    def trained_optimiser(self) -> Optimizer | None:
        """The optimiser, if it has made steps."""
        given = self.optimiser
        return given if isinstance(given, Optimizer) and (given.state or self.stage.name == "step") else None

    def build(self, seed: int) -> nn.Module:
        """The model of a seed, or the only model; refused if it cannot be measured."""
        model = self.model if self.factory is None else self.factory(seed, None)
        assert model is not None
        model = unwrap(model)
        check_model(model)
        return model


def subject_of(
    module_or_factory: nn.Module | Callable[..., nn.Module],
    batch: Any,
    loss: Loss | None = None,
    *,
    batches: int = 4,
    depths: Sequence[int] = OUTPUT_DEPTHS,
    name: str | None = None,
    thresholds: Thresholds | None = None,
    optimiser: Optimizer | Callable[[nn.Module], Optimizer] | None = None,
    learning_rate: float | None = None,
    warmup: int | None = None,
) -> Subject:
    """The subject of a module, or of a function of a seed (and of `num_layers`, for measures against depth)."""
    if batches < 1:
        raise UserError(f"batches is the number of parts that a batch is split into, at least 1, not {batches}")
    factory, any_depth = (None, False) if isinstance(module_or_factory, nn.Module) else as_factory(module_or_factory)
    of_width, width = (None, None) if factory is None else as_width_factory(module_or_factory)
    with random_state_kept():
        model = factory(1, None) if factory else module_or_factory
    assert isinstance(model, nn.Module)
    model = unwrap(model)
    check_model(model)
    if factory is not None and isinstance(optimiser, Optimizer):
        raise UserError(
            "an optimiser holds the parameters of one model, but a factory builds several; give a function: "
            "optimiser=lambda model: AdamW(model.parameters(), …)"
        )
    if learning_rate is None and optimiser is not None:
        learning_rate = _highest_rate_of_adam(optimiser if isinstance(optimiser, Optimizer) else optimiser(model))
    notes: list[str] = []
    return Subject(
        name=name or type(model).__name__,
        passes=passes_over(model, batch, loss, batches, notes),
        model=None if factory else model,
        factory=factory,
        any_depth=any_depth,
        depths=tuple(depths),
        of_width=of_width,
        widths=() if width is None else widths_below(width),
        stage=Stage(name="start" if factory else "given"),
        optimiser=optimiser,
        learning_rate=learning_rate,
        warmup=warmup,
        thresholds=thresholds,
        notes=notes,
    )


def _highest_rate_of_adam(optimiser: Optimizer) -> float | None:
    """The highest learning rate of an Adam, by its schedule if that is known; None of other optimisers and of 0."""
    if not isinstance(optimiser, Adam):  # AdamW is an Adam
        return None
    return max(max(group["lr"], group.get("initial_lr", 0.0)) for group in optimiser.param_groups) or None


def passes_over(model: nn.Module, batch: Any, loss: Loss | None, parts: int, notes: list[str]) -> list[Pass]:
    """One pass for each batch of a list, or for each part of a single batch; a pass may add to the notes."""
    if batch is None or (isinstance(batch, list) and any(each is None for each in batch)):
        raise UserError("the batch is None; give the arguments of the model: a tensor, a tuple or a dictionary")
    batches = batch if isinstance(batch, list) else split(batch, parts) if puts_batch_first(model) else [batch]
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


def split(batch: Any, parts: int) -> list[Any]:
    """Up to `parts` parts along the first dimension, where all tensors have the same; else the batch as it is."""
    lengths = {each.shape[0] if each.dim() else 0 for each in tensors_of(batch)}
    if len(lengths) != 1 or (length := lengths.pop()) < 2:
        return [batch]
    bounds = torch.linspace(0, length, min(parts, length) + 1).long().tolist()
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
    return (
        type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    )  # a named tuple takes its fields as arguments


def _check_devices(model: nn.Module, batch: Any) -> None:
    devices = {parameter.device for parameter in model.parameters()}
    for tensor in tensors_of(batch):
        if tensor.device not in devices and tensor.dim():
            places = ", ".join(str(each) for each in devices)
            raise UserError(f"the model is on {places}, but the batch on {tensor.device}; move one of them with .to(…)")


def _takes_two(function: Loss) -> bool:
    called = function.forward if isinstance(function, nn.Module) else function  # nn.Module.__call__ takes any arguments
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):  # a builtin has no signature
        return False
    required = [each for each in parameters if each.default is each.empty and each.kind in _POSITIONAL]
    return len(required) >= 2


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
