"""The check `untrained`: layers and modules without gradient, by path and cause."""

from __future__ import annotations

import pytest
from torch import nn

from lamina.diagnosis.checks.untrained import Untrained
from lamina.diagnosis.measurement import Location
from support.faulty_models import WordModel, findings_of, places
from support.measurements import advice, fact, findings, line, measurement


def test_a_model_that_is_trained_as_a_whole_is_fine() -> None:
    (found,) = findings_of(WordModel(), Untrained.key)
    assert (found.severity, found.value, found.location) == ("fine", 1.0, Location(stack="stack"))
    assert "every layer of the stack has a gradient" in found.sentence


def test_layers_below_a_detached_tensor() -> None:
    found = findings_of(WordModel(cut=2), "untrained")
    assert places(found) == {"layers.0": ("failure", "detached"), "embedding": ("warning", "detached")}
    assert "layers 1 to 2 of the stack" in found[0].sentence
    assert "detach()" in advice(found[0])


def test_frozen_layers_are_named_and_frozen_parts_of_trained_layers_are_fine() -> None:
    model = WordModel()
    model.layers[1].requires_grad_(False)
    model.embedding.requires_grad_(False)
    found = findings_of(model, "untrained")
    assert places(found) == {"layers.1": ("warning", "frozen")}
    assert 'model.get_submodule("layers.1").requires_grad_()' in advice(found[0])
    assert {each.location.module for each in found if each.severity == "fine"} == {"embedding"}
    part = WordModel()
    part.layers[1].linear1.requires_grad_(False)
    assert places(findings_of(part, "untrained")) == {}


def test_modules_that_were_not_called_and_outputs_that_were_not_used() -> None:
    model = WordModel()
    model.adapter = nn.Linear(4, 4)
    model.layers[2].norm2.register_forward_hook(lambda module, arguments, output: arguments[0] * 1)
    found = findings_of(model, "untrained")
    assert places(found) == {"adapter": ("warning", "unused")}
    assert {each.location.module for each in found if "without effect" in each.sentence} == {"layers.2.norm2"}


@pytest.mark.parametrize(
    ("zero", "module", "cause"),
    [
        ("layers.1.norm1.weight", "layers.1.self_attn", ("warning", "zero gain")),
        ("layers.1.linear2.weight", "layers.1.linear1", ("fine", "zero-initialised")),
        ("head.weight", "layers.0", ("warning", "zero-initialised")),
    ],
)
def test_parameters_that_are_zero_are_named_as_the_cause(zero: str, module: str, cause: tuple[str, str]) -> None:
    model = WordModel()
    model.part(zero).zero_()
    found = next(each for each in findings_of(model, "untrained") if each.location.module == module)
    assert (found.severity, found.sentence.partition(":")[0]) == cause
    assert zero in found.sentence


def test_two_zeros_in_a_row_never_get_a_gradient() -> None:
    model = WordModel()
    for path in ("layers.1.linear2.weight", "layers.1.linear1.weight"):
        model.part(path).zero_()
    model.layers[1].linear1.requires_grad_(False)
    found = findings_of(model, "untrained")
    assert ("failure", "zero-initialised") in places(found).values()


def test_units_that_are_never_active() -> None:
    model = WordModel()
    model.part("layers.1.linear1.bias").fill_(-1e3)
    assert places(findings_of(model, "untrained"))["layers.1.linear1"] == ("warning", "zero gradient")


def test_the_schemes_of_lamina_start_at_zero_on_purpose() -> None:
    shares = line(0.0, 0.0, stack="decoder")
    zero = fact("zero-initialised", 1.0, "decoder.gate", stack="decoder", layer=1, module="decoder.0.attention")
    taken = [measurement("gradient-coverage", shares, facts=[zero])]
    assert [each.severity for each in findings("untrained", taken, schemes=["re-zero"])] == ["fine"]
    assert [each.severity for each in findings("untrained", taken)] == ["warning"]


def test_single_layers_are_listed() -> None:
    shares = line(0.0, 1.0, 0.0, stack="stack")
    frozen = [fact("frozen", 1.0, stack="stack", layer=at, module=f"h.{at - 1}.fc") for at in (1, 3)]
    (found,) = findings("untrained", [measurement("gradient-coverage", shares, facts=frozen)])
    assert "layers 1, 3 of the stack (h.0.fc and the others) have no gradient" in found.sentence
