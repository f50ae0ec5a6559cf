"""The table of the fault grid, with made-up outcomes."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

from lamina.studies.faults.fault_table import read_outcomes, summary, table, write_outcomes
from lamina.studies.faults.grid import NO_FAULT, FaultOutcome

FROZEN = FaultOutcome("frozen layer", "plain torch", ("untrained",), "untrained", "start", True, loss=4.5, spoilt=True)
OUTCOMES = [
    FaultOutcome(NO_FAULT, "plain torch", loss=4.0),
    FROZEN,
    replace(FROZEN, model="GPT-2", module=False, loss=4.0, spoilt=False),
    FaultOutcome("NaN", "plain torch", ("refused",), others=("collapse",), values={"dead": inf}, loss=inf, spoilt=True),
]


def test_rates_and_rows() -> None:
    rates = summary(OUTCOMES)
    assert "2 of 3 (67%) of the faults are named" in rates
    assert "the right module in 1 of 2 (50%)" in rates
    assert "false alarms on 0 of 1 (0%)" in rates
    assert "2 of 3 (67%) spoil the short training; of these 1 of 2 (50%) are named" in rates
    lines = table(OUTCOMES).splitlines()
    assert lines[2] == "| none | nothing |  | 4.00 |  |  |  |"
    assert lines[3] == "| frozen layer | untrained | yes | **4.50** | untrained | no | 4.00 |"
    assert lines[4] == "| NaN | not named |  | **diverged** |  |  |  |"


def test_outcomes_are_stored_with_infinities(tmp_path: Path) -> None:
    write_outcomes(OUTCOMES, tmp_path / "grid.json")
    assert read_outcomes(tmp_path / "grid.json") == OUTCOMES
