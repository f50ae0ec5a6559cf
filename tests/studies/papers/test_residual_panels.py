"""Figure 2 of ResiDual: the change of the hidden state at every sub-layer of a trained model."""

from __future__ import annotations

from pathlib import Path

from lamina.runs.run import Run
from lamina.studies.papers.residual_panels import TRAINED_CHANGE, measure_trained_changes
from support.small_runs import config_for


def test_every_sub_layer_of_a_trained_model_has_a_change(stores: Path, tmp_path: Path) -> None:
    run = Run(config_for("translation", stores, train={"steps": 2}), tmp_path / "run")
    run.train(quiet=True)
    rows = list(measure_trained_changes(run))
    assert {each.quantity for each in rows} == {TRAINED_CHANGE}
    blocks = [(each.labels["stack"], each.labels["block"]) for each in rows]
    assert blocks == [("encoder", block) for block in range(1, 5)] + [("decoder", block) for block in range(1, 7)]
    assert all(each.value is not None and each.value > 0 for each in rows)
