"""All measures: how they are found, and that each can be taken of every scheme."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest
from torch import Tensor, nn

from lamina import residual
from lamina.diagnosis import measures
from lamina.diagnosis.examine import examine_model
from lamina.diagnosis.measurement import Measurement, NotMeasured
from lamina.diagnosis.measures import MEASURES, all_measures, measures_that_need, take
from lamina.diagnosis.measures.base import Evidence, Measure
from lamina.diagnosis.recording.records import Record
from lamina.registry import Registry
from support.recorded import by_hand, mean_of, tensor_record
from support.small_models import LABELS, SOURCE, TARGET, small_model

NEW_MEASURE = '''
from lamina.diagnosis.measures.base import Measure
from lamina.diagnosis.measurement import Axes, Fact

class LossOfBatch(Measure):
    """The loss itself."""

    title = "Loss"
    formula = "L"
    source = "none"
    look_for = "Nothing."
    axes = Axes(x="", y="nats")
    needs = ("record",)

    def take(self, evidence):
        return self.measurement(facts=[Fact(name="loss", value=evidence.record.loss)])
'''


def run(model: nn.Module) -> Tensor:
    return model(SOURCE, TARGET, labels=LABELS).smoothed.mean()


def test_a_key_is_the_name_of_the_file() -> None:
    folder = Path(measures.__file__).parent
    for key, measure in MEASURES.members.items():
        assert (folder / f"{key.replace('-', '_')}.py").exists()
        assert measure.key == key
        assert all((measure.title, measure.formula, measure.source, measure.look_for, measure.needs))
    positions = [each.position for each in all_measures()]
    assert len(set(positions)) == len(positions), "two measures at one position"


@pytest.mark.parametrize("scheme", residual.names())
def test_everything_can_be_taken(scheme: str) -> None:
    model = small_model(scheme)
    examined = examine_model(model, [run, run])
    combined = mean_of([examined.measurements, examined.measurements])
    assert [each.key for each in combined] == [each.key for each in examined.measurements]
    # Foreign stacks, dropout, sixteen positions, and several streams are tested with models that have them.
    not_here = {"layer-structure", "dropout-rates", "dead-units", "stream-mixing", "target-alignment"}
    expected = {"none": {"gradient-at-norms", "norm-jacobian"}}.get(model.encoder.residual.placement, set())
    assert {each.key for each in examined.not_measured} - not_here == expected
    for each in combined:
        assert all(spread == pytest.approx(0, abs=1e-6) for series in each.measured for spread in series.spread)
        stacks = {one.location.stack for one in (*each.series, *each.grids)}
        assert stacks == {"encoder", "decoder"} or each.key in ("initial-loss", "target-alignment")


def test_what_cannot_be_measured_says_why() -> None:
    record = by_hand([tensor_record([[1.0, 2.0]]), tensor_record([[2.0, 2.5]])])
    found = [take(each, Evidence(record=record)) for each in measures_that_need("record")]
    measured = {each.key for each in found if isinstance(each, Measurement)}
    assert measured >= {"stream-norms", "hidden-change", "cosine-of-layers"}
    reasons = {each.key: each.reason for each in found if isinstance(each, NotMeasured)}
    without = {"gradient-along-stream", "gradient-at-norms", "norm-jacobian", "added-block", "layer-dependency"}
    assert reasons.keys() >= without, "a measure was taken without the gradients, norms or branches that it needs"
    assert "branches" in reasons["layer-dependency"]
    assert "Lamina's own" in reasons["added-block"]
    assert "no norms" in reasons["norm-jacobian"]
    empty = [take(each, Evidence(record=Record(0.0, []))) for each in measures_that_need("record")]
    assert all(isinstance(each, NotMeasured) for each in empty)


def test_a_measure_that_raises_is_named_and_the_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Measure, evidence: Evidence) -> Measurement:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(MEASURES["hidden-change"], "take", broken)
    examined = examine_model(small_model("pre-ln"), [run])
    assert {each.key for each in examined.measurements} >= {"stream-norms", "cosine-of-layers"}
    (failed,) = (each for each in examined.not_measured if each.key == "hidden-change")
    assert failed.reason == "the measure raised ZeroDivisionError: by nothing"


@pytest.fixture
def _with_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package has one more folder, with one more file."""
    (tmp_path / "loss_of_batch.py").write_text(NEW_MEASURE)
    monkeypatch.setattr(measures, "__path__", [*measures.__path__, str(tmp_path)])
    monkeypatch.setattr(measures, "MEASURES", fresh())
    monkeypatch.delitem(sys.modules, "lamina.diagnosis.measures.loss_of_batch", raising=False)


def fresh() -> Registry[Measure]:
    return Registry(measures.__name__, Measure, kind="measure", group="lamina.measures", attribute="key")


@pytest.mark.usefixtures("_with_new_file")
def test_a_new_measure_is_one_file() -> None:
    assert "loss-of-batch" in measures.MEASURES
    (found,) = [each for each in examine_model(small_model("b2t"), [run]).measurements if each.key == "loss-of-batch"]
    assert found.facts[0].value > 0


def test_packages_add_measures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "their_measures.py").write_text(NEW_MEASURE)
    monkeypatch.syspath_prepend(tmp_path)
    entry = metadata.EntryPoint("their-loss", "their_measures:LossOfBatch", "lamina.measures")
    broken = metadata.EntryPoint("broken", "their_measures:Nothing", "lamina.measures")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry, broken] if group == "lamina.measures" else [])
    with pytest.warns(UserWarning, match=r"measure 'broken' .*cannot be used, left out"):
        assert fresh()["their-loss"].key == "their-loss"
