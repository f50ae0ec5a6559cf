"""The grid that calibrates the thresholds of checks: its cells, its options, and a small one from end to end."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import pytest

from lamina.studies import calibration, calibration_score
from lamina.studies.calibration_score import CalibrationCell


def test_seeds_of_a_cell_stay_together_and_halves_are_even() -> None:
    places = list(product(calibration.SCHEMES, calibration.DEPTHS, calibration.LEARNING_RATES))
    cells = [[CalibrationCell(*place, seed) for seed in (1, 2)] for place in places]
    assert all(one.half == other.half for one, other in cells)
    assert 0.3 < sum(one.half for one, _ in cells) / len(cells) < 0.7


def test_the_former_name_of_an_option_is_accepted_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_grid(folder: Path, *, learning_rates: list[float], seeds: int, steps: int) -> None:
        assert learning_rates == [0.01]
        raise KeyboardInterrupt  # nothing is trained

    monkeypatch.setattr(calibration, "run_grid", run_grid)
    with pytest.raises(KeyboardInterrupt):
        calibration.main(["--folder", str(tmp_path), "--rates", "0.01"])
    assert "--rates is now called --learning-rates" in capsys.readouterr().err


@pytest.mark.slow
def test_a_small_grid_from_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(calibration, "SCHEMES", ("pre-ln", "post-ln/pre-ln"))
    monkeypatch.setattr(calibration, "DEPTHS", (2,))
    monkeypatch.setattr(calibration_score, "LEARNT", -math.inf)  # so short a run learns nothing
    calibration.main(["--folder", str(tmp_path), "--steps", "4", "--learning-rates", "0.01"])
    said = capsys.readouterr().out
    assert "| pre-ln | 2 | 0.01 |" in said
    assert "| post-ln/pre-ln | 2 | 0.01 |" in said
    assert json.loads((tmp_path / "calibration.json").read_bytes())["rows"]
    assert {path.name for path in (tmp_path / "rate-0.01").iterdir() if path.is_dir()} == {
        "pre-ln-2-seed1",
        "post-ln+pre-ln-2-seed1",
    }
