"""The demonstration, cut short: it runs to its end, and the same seed gives the same losses and weights."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lamina.run_folder.folder import RunFolder
from lamina.studies import demo

pytestmark = pytest.mark.slow
STEPS = 40


@pytest.fixture(autouse=True)
def _shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers, a high rate and a short warm-up: some of the runs learn something in so few steps."""
    easier = {"num_layers = 12": "num_layers = 2", "1e-3": "1e-2", "{warmup}": "10"}
    text = demo.CONFIG
    for hard, easy in easier.items():
        assert hard in text
        text = text.replace(hard, easy)
    monkeypatch.setattr(demo, "CONFIG", text)


def outcomes(folder: Path) -> dict[str, tuple[list[float], bytes]]:
    """Every loss of each run, and its last weights."""
    found = {}
    for path in sorted((folder / "runs").iterdir()):
        lines = list(RunFolder(path).metrics.read())
        values = [line[key] for line in lines for key in ("loss", "valid_nll") if key in line]
        found[path.name] = values, (path / "checkpoints/latest/model.safetensors").read_bytes()
    return found


def test_two_demos_are_the_same_and_end_in_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))  # or two runs would have more threads than five
    first, second = tmp_path / "[/first]", tmp_path / "second"  # a name that rich would choke on
    page = demo.run_demo(first, STEPS)
    said = capsys.readouterr().out
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    for sentence in ("At depth 2-2 ", "Before the first step, the gradient", "Best here: "):
        (whole,) = [line for line in said.splitlines() if line.startswith(sentence)]
        assert whole.replace("'", "&#39;") in text
    assert "translates" in said
    assert f"The report: {page}" in said
    assert 'id="samples"' in text
    assert len(outcomes(first)) == len(demo.SCHEMES)
    assert all(len(values) == 6 for values, _ in outcomes(first).values()), "steps 1, 10 … 40, and the validation"

    monkeypatch.setattr(demo, "SCHEMES", ("admin", "b2t"))  # one is calibrated, one is not
    demo.run_demo(second, STEPS)
    again = outcomes(second)
    assert len(again) == 2
    assert again == {name: outcome for name, outcome in outcomes(first).items() if name in again}
