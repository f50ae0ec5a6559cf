"""The update that an optimiser would make next, without making it.

With an optimiser its own step is taken, and weights and state are restored. Without one it is Adam's first step,

    ΔW = −η·g ÷ (|g| + ε),

at the learning rate that is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lamina.errors import UserError

LEARNING_RATE = 1e-3
"""The learning rate of Adam where none is given: the default of torch."""
EPSILON = 1e-8
"""Adam's ε where no optimiser is given: the default of torch."""


@dataclass(eq=False)
class PlannedUpdate:
    """The next update of every parameter that has a gradient; a frozen one, or one that is not optimised, has none."""

    changes: dict[nn.Parameter, Tensor]
    """ΔW of every parameter with a gradient; zeros where the optimiser does not update it."""
    learning_rate: float
    """The highest learning rate of all groups."""
    epsilon: float | None
    """Adam's ε; None where the optimiser has none."""
    assumed: bool
    """Whether it is Adam's first step because no optimiser was given."""
    gradient_sizes: dict[nn.Parameter, float] = field(default_factory=dict)
    """√mean(g²) over the rows that have a gradient."""
    adam_rms: dict[nn.Parameter, float] = field(default_factory=dict)
    """√mean(g² ÷ v̂), v̂ the second moment before this step; empty before Adam's first step."""
    decay: dict[nn.Parameter, float] = field(default_factory=dict)
    """η·λ where weight decay is decoupled, else λ·‖W‖ ÷ ‖g‖."""
    decoupled: bool = True
    settings: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The values of every group: `lr`, `weight_decay`, `eps`, `beta1`, `beta2`."""

    @contextmanager
    def applied(self) -> Iterator[Callable[[float], None]]:
        """A function that moves the weights by a multiple of the update; they are restored afterwards."""
        saved = {parameter: parameter.detach().clone() for parameter in self.changes}

        @torch.no_grad()
        def move(multiple: float) -> None:
            for parameter, change in self.changes.items():
                parameter.copy_(saved[parameter]).add_(change, alpha=multiple)

        try:
            yield move
        finally:
            move(0.0)


def planned_update(
    model: nn.Module, backward: Callable[[], None], optimiser: Optimizer | None, learning_rate: float | None
) -> PlannedUpdate:
    """The next update for the gradients that `backward` leaves in the parameters."""
    backward()
    trained = [each for each in model.parameters() if each.grad is not None and not each.grad.is_sparse]
    sizes = {each: _size(each.grad) for each in trained if each.grad is not None}
    if optimiser is None:
        return _first_of_adam(trained, sizes, learning_rate)
    known = {each for group in optimiser.param_groups for each in group["params"]}
    if not known & set(model.parameters()):
        raise UserError("the optimiser holds none of the model's parameters; make it from model.parameters()")
    return _of_optimiser(optimiser, trained, sizes, learning_rate)


@torch.no_grad()
def _first_of_adam(
    trained: Sequence[nn.Parameter], sizes: dict[nn.Parameter, float], learning_rate: float | None
) -> PlannedUpdate:
    rate = learning_rate or LEARNING_RATE
    changes = {}
    for each in trained:
        assert each.grad is not None
        gradient = each.grad  # overwritten: a copy would need as much memory as the weights
        changes[each] = gradient.div_(gradient.abs().add_(EPSILON)).mul_(-rate)
    return PlannedUpdate(changes, rate, EPSILON, True, sizes)


def _of_optimiser(
    optimiser: Optimizer,
    trained: Sequence[nn.Parameter],
    sizes: dict[nn.Parameter, float],
    learning_rate: float | None,
) -> PlannedUpdate:
    rms, decay = _adam_rms(optimiser, trained), _decay(optimiser, sizes)
    before = {each: each.detach().clone() for each in trained}
    with _state_kept(optimiser), _highest_learning_rates(optimiser, learning_rate) as highest:
        settings = _settings(optimiser)
        optimiser.step()
    changes = {}
    with torch.no_grad():
        for each, value in before.items():
            changes[each] = each.detach() - value
            each.copy_(value)
    epsilon = settings.get("eps")
    return PlannedUpdate(
        changes,
        highest,
        max(epsilon) if epsilon else None,
        False,
        sizes,
        rms,
        decay,
        _is_decoupled(optimiser),
        settings,
    )


@contextmanager
def _state_kept(optimiser: Optimizer) -> Iterator[None]:
    """Restore the optimiser's state; hooks on its steps, as of a watch, do not run."""
    before = {each: {name: _copy(value) for name, value in state.items()} for each, state in optimiser.state.items()}
    hooks: list[Any] = [optimiser._optimizer_step_pre_hooks, optimiser._optimizer_step_post_hooks]
    held = [dict(each) for each in hooks]
    for each in hooks:
        each.clear()
    try:
        yield
    finally:
        optimiser.state.clear()
        optimiser.state.update(before)
        for each, entries in zip(hooks, held, strict=True):
            each.update(entries)


@contextmanager
def _highest_learning_rates(optimiser: Optimizer, learning_rate: float | None) -> Iterator[float]:
    """Set every group to the highest learning rate of its schedule, which a warm-up has not reached yet."""
    before = [group["lr"] for group in optimiser.param_groups]
    rates = [max(float(group["lr"]), float(group.get("initial_lr", 0.0))) for group in optimiser.param_groups]
    scale = learning_rate / max(rates) if learning_rate and max(rates) else 1.0
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate * scale
    try:
        yield max(rates) * scale
    finally:
        for group, rate in zip(optimiser.param_groups, before, strict=True):
            group["lr"] = rate


def _settings(optimiser: Optimizer) -> dict[str, tuple[float, ...]]:
    groups = optimiser.param_groups
    found = {
        name: tuple(float(group[name]) for group in groups)
        for name in ("lr", "weight_decay", "eps")
        if all(isinstance(group.get(name), int | float) for group in groups)
    }
    if all("betas" in group for group in groups):
        found |= {f"beta{at + 1}": tuple(float(group["betas"][at]) for group in groups) for at in (0, 1)}
    return found


def _is_decoupled(optimiser: Optimizer) -> bool:
    return all(group.get("decoupled_weight_decay", False) for group in optimiser.param_groups)


def _decay(optimiser: Optimizer, sizes: Mapping[nn.Parameter, float]) -> dict[nn.Parameter, float]:
    found = {}
    for group in optimiser.param_groups:
        decay, decoupled = float(group.get("weight_decay") or 0.0), group.get("decoupled_weight_decay", False)
        rate = max(float(group["lr"]), float(group.get("initial_lr", 0.0)))
        for each in group["params"]:
            if decay and each in sizes:
                found[each] = rate * decay if decoupled else decay * _size(each.detach()) / max(sizes[each], 1e-30)
    return found


@torch.no_grad()
def _adam_rms(optimiser: Optimizer, trained: Sequence[nn.Parameter]) -> dict[nn.Parameter, float]:
    found = {}
    betas: dict[nn.Parameter, Any] = {
        each: group.get("betas") for group in optimiser.param_groups for each in group["params"]
    }
    for each in trained:
        state = optimiser.state.get(each, {})
        if "exp_avg_sq" in state and betas.get(each) is not None and each.grad is not None:
            second = state["exp_avg_sq"] / (1 - betas[each][1] ** float(state["step"]))
            rows = second > 0
            found[each] = (each.grad[rows].square() / second[rows]).mean().sqrt().item() if bool(rows.any()) else 0.0
    return found


@torch.no_grad()
def _size(tensor: Tensor) -> float:
    """√mean(x²) over the rows that are not zero."""
    if tensor.dim() < 2:
        return tensor.float().square().mean().sqrt().item()
    squares = tensor.float().square().flatten(1).mean(1)
    rows = int((squares > 0).sum())
    return (squares.sum().item() / rows) ** 0.5 if rows else 0.0


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
