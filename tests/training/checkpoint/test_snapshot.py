"""Snapshots: a restored run continues as if it had never stopped; other models and optimisers are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.training.checkpoint.snapshot import Snapshot, load_weights
from lamina.training.checkpoint.storage import (
    list_checkpoints,
    load,
    save,
)
from lamina.training.optimisers import OptimiserOptions, build_optimiser, set_learning_rate
from support.small_models import LABELS, SOURCE, TARGET, small_model

OPTIMISERS: list[dict[str, Any]] = [
    {"name": "adam"},
    {"name": "adamw", "weight_decay": 0.1},
    {"name": "radam", "weight_decay": 0.01},
    {"name": "sgd"},
    {"name": "sgd", "momentum": 0.9},
]


def built(optimiser: dict[str, Any], residual: str = "admin") -> tuple[Any, torch.optim.Optimizer]:
    """A model with dropout, so that the random state matters, and its optimiser."""
    model = small_model(residual, dropout=0.2)
    return model, build_optimiser(OptimiserOptions(**optimiser), model)


def train(model: Any, optimiser: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        set_learning_rate(optimiser, 1e-2 / step)
        optimiser.zero_grad()
        scores = model(SOURCE, TARGET)
        F.cross_entropy(scores.flatten(0, 1), LABELS.flatten()).backward()
        optimiser.step()


def snapshot(step: int = 1, **model: Tensor) -> Snapshot:
    """A small one, without a model or an optimiser."""
    random = {"cpu": torch.get_rng_state()}
    return Snapshot(
        model or {"w": torch.full((3,), float(step))}, {}, {"class": "SGD", "state": {}}, random, {"step": step}
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("optimiser", OPTIMISERS, ids=lambda values: "-".join(map(str, values.values())))
def test_a_restored_run_ends_as_one_never_interrupted(tmp_path: Path, optimiser: dict[str, Any]) -> None:
    model, rule = built(optimiser)
    train(model, rule, range(1, 8))
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 7}))
    train(model, rule, range(8, 15))
    uninterrupted = Snapshot.take(model, rule, {"step": 14})
    expected = contents(save(tmp_path / "uninterrupted", uninterrupted))

    torch.manual_seed(999)
    model, rule = built(optimiser)
    load(path).restore(model, rule)
    train(model, rule, range(8, 15))
    assert contents(save(tmp_path / "resumed", Snapshot.take(model, rule, {"step": 14}))) == expected


def test_parameters_that_were_never_updated_stay_so(tmp_path: Path) -> None:
    """Frozen for a while: the optimiser knows them and has no state for them."""
    model, rule = built({"name": "adam"})
    model.encoder.requires_grad_(False)
    train(model, rule, range(1, 3))
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 2}))
    model, rule = built({"name": "adam"})
    load(path).restore(model, rule)
    frozen = {id(parameter) for parameter in model.encoder.parameters()}
    assert {id(parameter) for parameter in rule.state} == {
        id(parameter) for parameter in model.parameters() if id(parameter) not in frozen
    }


def test_the_optimiser_file_is_named_after_the_parameters(tmp_path: Path) -> None:
    model, rule = built({"name": "adam"})
    train(model, rule, range(1, 2))
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 1}))
    names = [name for name, _ in model.named_parameters()]
    stored = load_file(path / "optimiser.safetensors")
    assert set(stored) == {f"state.{name}.{part}" for name in names for part in ("step", "exp_avg", "exp_avg_sq")}
    assert json.loads((path / "optimiser.json").read_text()) == {"class": "Adam", "state": {}}


def test_settings_come_from_the_config_not_from_the_checkpoint(tmp_path: Path) -> None:
    model, rule = built({"name": "adamw", "weight_decay": 0.1})
    train(model, rule, range(1, 3))
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 2}))
    model, rule = built({"name": "adamw", "weight_decay": 0.5})
    load(path).restore(model, rule)
    assert [group["weight_decay"] for group in rule.param_groups] == [0.5, 0.0]


def test_state_that_is_no_tensor_comes_back(tmp_path: Path) -> None:
    model, rule = built({"name": "sgd"})
    parameter = next(model.parameters())
    rule.state[parameter] = {"turn": 3, "buffer": None, "mean": torch.ones(2)}
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 1}))
    model, rule = built({"name": "sgd"})
    load(path).restore(model, rule)
    state = rule.state[next(model.parameters())]
    assert (state["turn"], state["buffer"], state["mean"].tolist()) == (3, None, [1.0, 1.0])


def test_a_tied_module_is_restored(tmp_path: Path) -> None:
    def tied() -> nn.Sequential:
        model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        model[1].weight = model[0].weight
        return model

    model = tied()
    rule = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    rule.step()
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 1}))
    fresh = tied()
    load(path).restore(fresh, torch.optim.Adam(fresh.parameters()))
    assert fresh[1].weight is fresh[0].weight
    assert torch.equal(fresh[0].weight, model[0].weight)


def test_another_model_is_refused_before_anything_is_copied() -> None:
    model = small_model("post-ln")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    changed = {name: value + 1 for name, value in before.items()}
    last = list(changed)[-1]
    for wrong, message in (
        ({**changed, "extra": torch.ones(1)}, "only the checkpoint has 'extra'"),
        ({name: value for name, value in changed.items() if name != last}, f"only the model has '{last}'"),
        ({**changed, last: changed[last].double()}, r"of float64, here it is \(16,\) of float32"),
        ({**changed, last: torch.ones(3)}, r"is \(3,\) of float32, here it is \(16,\)"),
    ):
        with pytest.raises(UserError, match=message):
            load_weights(model, wrong)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_another_optimiser_is_refused(tmp_path: Path) -> None:
    model, rule = built({"name": "adam"})
    path = save(tmp_path, Snapshot.take(model, rule, {"step": 1}))
    with pytest.raises(UserError, match="made with the optimiser Adam, not SGD"):
        load(path).restore(*built({"name": "sgd"}))


def steps(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("step-")) for path in list_checkpoints(folder)]
