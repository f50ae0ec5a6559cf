"""Why parameters have no gradient."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.parameters import Cause, explain_gradients, layer_of_parameters
from lamina.diagnosis.recording.passes import record_pass
from support.faulty_models import IDS, WordModel, word_loss


def run(model: nn.Module) -> Tensor:
    return word_loss(model(IDS), IDS)


def causes(model: nn.Module) -> dict[str, Cause | None]:
    record, _ = record_pass(model, run)
    return {each.path: each.cause for each in record.parameters}


def test_every_parameter_of_a_healthy_model_has_a_gradient() -> None:
    model = WordModel()
    found = causes(model)
    assert list(found) == [path for path, _ in model.named_parameters()]
    assert set(found.values()) == {None}


def test_what_the_loss_depends_on_is_found_by_moving_it_and_moved_back() -> None:
    model = WordModel(cut=1)
    model.adapter = nn.Linear(3, 3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = causes(model)
    assert {path.split(".")[0] for path, cause in found.items() if cause == "detached"} == {"embedding", "layers"}
    assert found["layers.0.linear1.weight"] == "detached"
    assert found["layers.1.linear1.weight"] is None
    assert found["adapter.weight"] == "unused"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())


def test_the_nearest_zero_is_the_cause() -> None:
    model = WordModel()
    for number in (1, 3):
        model.part(f"layers.{number}.linear2.weight").zero_()
    record, _ = record_pass(model, run)
    because = {each.path: each.because_of for each in record.parameters if each.cause == "zero-initialised"}
    assert because["layers.1.linear1.weight"] == "layers.1.linear2.weight"
    assert because["layers.3.linear1.weight"] == "layers.3.linear2.weight"
    assert "layers.2.linear1.weight" not in because


def test_in_training_the_optimiser_is_compared_and_the_layers_above() -> None:
    """Without a loss that can be computed again."""
    model = WordModel(cut=2)
    layers = {"stack": [[layer] for layer in model.layers]}
    ran = set(model.modules())
    run(model).backward()
    optimised = {id(each) for each in model.parameters() if each is not model.head.weight}
    found = {each.path: each.cause for each in explain_gradients(model, layers, ran, optimised=optimised)}
    assert found["head.weight"] == "not in the optimiser"
    assert found["layers.1.norm1.weight"] == found["embedding.weight"] == "detached"
    assert found["layers.2.norm1.weight"] is None
    assert layer_of_parameters(layers)[id(model.layers[3].linear1.weight)] == ("stack", 3)
