"""The check `non-finite`: the first module whose output or gradient is NaN or infinite."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import lamina
from lamina.diagnosis.checks.non_finite import NonFiniteValues
from support.faulty_models import IDS, WordModel, findings_of, word_loss
from support.measurements import advice, fact, findings, line, measurement


class Broken(torch.autograd.Function):
    """The identity, with a gradient that is not a number."""

    @staticmethod
    def forward(context: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        return gradient / 0.0


def test_a_healthy_model_is_finite() -> None:
    (found,) = findings_of(WordModel(), NonFiniteValues.key)
    assert (found.severity, found.location.stack) == ("fine", "stack")


def test_a_loss_that_is_not_a_number_is_traced_to_its_module() -> None:
    model = WordModel()
    model.layers[2].linear2.register_forward_hook(lambda module, arguments, output: output / 0.0)
    (found,) = findings_of(model, "non-finite")
    assert (found.severity, found.location.module, found.location.layer) == ("failure", "layers.2.linear2", 3)
    assert "the largest number of its input is" in found.sentence
    assert "layers.2.linear2" in advice(found)


def test_an_input_that_is_not_finite_arises_before_the_module() -> None:
    model = WordModel()
    model.layers[1].register_forward_pre_hook(lambda module, arguments: (arguments[0] * float("nan"),))
    (found,) = findings_of(model, "non-finite")
    assert found.location.module == "layers.1.norm1"
    assert "it arises in the code before this module" in found.sentence


def test_a_backward_pass_that_overflows_is_traced_in_its_own_order() -> None:
    model = WordModel()
    model.layers[1].register_forward_hook(lambda module, arguments, output: Broken.apply(output))
    (found,) = findings_of(model, "non-finite")
    assert found.location.module is not None
    assert found.location.module.startswith("layers.1")
    assert "gradient at the output" in found.sentence


def test_a_loss_function_that_divides_by_zero() -> None:
    report = lamina.diagnose(WordModel(), IDS, lambda output: output.mean() / 0.0, batches=2)
    (found,) = (each for each in report.findings if each.check == "non-finite")
    assert "arises in the loss function" in found.sentence
    assert found.severity == "failure"


def test_half_precision_is_exceeded_under_autocast() -> None:
    model = WordModel(dropout=0.0)
    model.part("layers.1.linear1.weight").mul_(1e5)
    with torch.autocast("cpu", dtype=torch.float16):
        report = lamina.diagnose(model, IDS, word_loss, batches=2)
    (found,) = (each for each in report.findings if each.check == "non-finite")
    assert found.location.module == "layers.1.linear1"
    assert "its precision ends at 65,504" in found.sentence
    assert "bf16" in advice(found)


@pytest.mark.parametrize(("recovered", "severity"), [(False, "failure"), (True, "warning")])
def test_values_that_are_finite_again_are_a_warning(recovered: bool, severity: str) -> None:
    place = {"stack": "stack", "layer": 2, "module": "h.1.fc"}
    facts = [fact("limit", 65504.0, "output", **place), fact("parameters", 3.0, "output", **place)]
    facts += [fact("finite again at step", 40.0)] if recovered else []
    taken = [measurement("module-ranges", line(1.0, 2.0, stack="stack", quantity="output"), facts=facts)]
    (found,) = findings("non-finite", taken)
    assert (found.severity, found.location.module) == (severity, "h.1.fc")
    assert ("finite again at step 40" in found.sentence) == recovered
