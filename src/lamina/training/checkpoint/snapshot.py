"""Everything that a run needs to be resumed exactly: weights, optimiser, random state, counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lamina.errors import UserError
from lamina.training.distributed.parallel import shard_like

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state at the end of a step. `take` copies nothing: save it before the next step."""

    model: Tensors
    optimiser: Tensors
    """The tensors of the optimiser's state, named `state.<parameter>.<key>`."""
    optimiser_facts: Mapping[str, Any]
    """The optimiser's class, and those of its state values that are not tensors; JSON."""
    random: Tensors
    """Torch's random state on the CPU, and on the GPU that is used."""
    counters: Mapping[str, Any]
    """Step, epoch and other numbers of the training loop; JSON."""

    @property
    def step(self) -> int:
        return int(self.counters["step"])

    @classmethod
    def take(cls, model: nn.Module, optimiser: Optimizer, counters: Mapping[str, Any]) -> Snapshot:
        weights = model.state_dict()  # first: it leaves a sharded model sharded, as the optimiser has its parameters
        state = _named_state(model, optimiser)
        tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        others = {name: value for name, value in state.items() if name not in tensors}
        facts = {"class": type(optimiser).__name__, "state": others}
        return cls(weights, tensors, facts, _random_state(), dict(counters))

    def restore(self, model: nn.Module, optimiser: Optimizer) -> None:
        """Restore a model and an optimiser that were built like those it was taken from."""
        load_weights(model, self.model)
        self._restore_optimiser(model, optimiser)
        self._restore_random()

    def _restore_optimiser(self, model: nn.Module, optimiser: Optimizer) -> None:
        if self.optimiser_facts["class"] != type(optimiser).__name__:
            raise UserError(
                f"the checkpoint was made with the optimiser {self.optimiser_facts['class']}, not "
                f"{type(optimiser).__name__}; use that one, or start a new run."
            )
        parameters = dict(model.named_parameters())
        states: dict[str, dict[str, Any]] = {name: {} for name in parameters}
        for key, value in {**self.optimiser, **self.optimiser_facts["state"]}.items():
            name, part = parameter_of(key), key.rpartition(".")[2]
            states[name][part] = shard_like(parameters[name], value.clone()) if isinstance(value, Tensor) else value
        names = _names(model)
        numbered = optimiser.state_dict()
        numbered["state"] = {
            number: states[names[parameter]]
            for group, numbers in zip(optimiser.param_groups, numbered["param_groups"], strict=True)
            for parameter, number in zip(group["params"], numbers["params"], strict=True)
            if states[names[parameter]]
        }
        optimiser.load_state_dict(numbered)  # the settings of the groups are those of the config

    def _restore_random(self) -> None:
        torch.set_rng_state(self.random["cpu"].clone())
        if "cuda" in self.random and torch.cuda.is_available():
            torch.cuda.set_rng_state(self.random["cuda"].clone())


def load_weights(model: nn.Module, weights: Tensors) -> None:
    """Copy weights into a model that was built like the one they came from; nothing is copied unless all fit."""
    have = model.state_dict()
    if unmatched := sorted(have.keys() ^ weights.keys()):
        where = "the checkpoint" if unmatched[0] in weights else "the model"
        raise UserError(f"the checkpoint is of another model: only {where} has {unmatched[0]!r}.")
    for name, value in weights.items():
        there, here = _describe(value), _describe(have[name])
        if there != here:
            raise UserError(f"the checkpoint is of another model: there {name!r} is {there}, here it is {here}.")
    model.load_state_dict({name: shard_like(have[name], value) for name, value in weights.items()})


def parameter_of(key: str) -> str:
    """The parameter that a tensor of the optimiser's state belongs to."""
    return key.removeprefix("state.").rpartition(".")[0]


def _named_state(model: nn.Module, optimiser: Optimizer) -> dict[str, Any]:
    names = _names(model)
    return {
        f"state.{names[parameter]}.{part}": value
        for parameter, state in optimiser.state.items()
        for part, value in state.items()
    }


def _names(model: nn.Module) -> dict[Tensor, str]:
    return {parameter: name for name, parameter in model.named_parameters()}


def _random_state() -> dict[str, Tensor]:
    """The random state of the CPU, and of this process's GPU if it uses one.

    Reading that of another GPU would allocate memory there.
    """
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _describe(value: Tensor) -> str:
    return f"{tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
