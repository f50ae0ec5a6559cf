"""What all measures share: their keys and descriptions, and the evidence that they are taken from."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.diagnosis.measurement import Axes, Fact, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, require
from support.measurements import line
from support.recorded import by_hand, tensor_record


class SomeMeasure(Measure):
    """The loss."""

    title, formula, source, look_for = "Loss", "L", "none", "Nothing."
    axes = Axes(x="layer", y="nats")
    needs = ("record",)

    def take(self, evidence: Evidence) -> Measurement:
        return self.measurement(facts=[Fact(name="loss", value=require(evidence.record).loss)])


def test_the_key_is_the_name_of_the_module() -> None:
    assert SomeMeasure.key == SomeMeasure().about.key == "test-base"
    assert SomeMeasure().about.title == "Loss"


def test_numbers_carry_the_description_and_other_axes_where_they_are_given() -> None:
    measure, other = SomeMeasure(), Axes(x="step", y="nats")
    found = measure.measurement([line(1.0, 2.0, stack="encoder")])
    assert found.about == measure.about
    assert found.series[0].y == (1.0, 2.0)
    assert measure.conclude(found) is found, "nothing follows unless a measure says so"
    moved = measure.measurement(axes=other)
    assert moved.about.axes == other
    assert moved.about.title == "Loss"
    assert measure.axes.x == "layer", "its own axes stay as they are"


def test_evidence_knows_what_it_holds() -> None:
    record = by_hand([tensor_record(torch.zeros(1, 2)), tensor_record(torch.zeros(1, 2))])
    assert Evidence().available == frozenset()
    assert Evidence(record=record, history=()).available == {"record", "history"}
    assert Evidence(gradients={}, model=nn.Linear(1, 1)).available == {"gradients", "model"}
    assert Evidence(factory=lambda seed, depth: nn.Linear(1, 1)).available == {"factory"}


def test_a_measure_without_its_evidence_is_a_mistake_of_the_caller() -> None:
    record = by_hand([tensor_record(torch.zeros(1, 2))] * 2)
    assert SomeMeasure().take(Evidence(record=record)).facts[0].value == record.loss
    with pytest.raises(AssertionError, match="without what it needs"):
        SomeMeasure().take(Evidence())
