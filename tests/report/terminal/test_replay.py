"""A replayed step on a terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lamina.report.terminal.replay import show_replay
from support.replayed import STEP


def test_numbers_examples_and_the_place_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    show_replay(STEP, Path("step.html"))
    shown = " ".join(capsys.readouterr().out.split())
    for text in ("Step 1,250 of runs/own", "loss: 2.5", "repeated from: the checkpoint of step 1,000", "one\\ttwo"):
        assert text in shown
    assert shown.endswith("step.html")


def test_a_step_that_diverged(capsys: pytest.CaptureFixture[str]) -> None:
    show_replay(replace(STEP, update=None, divergence="the loss is not finite"), Path("step.html"))
    assert "✗ the loss is not finite" in capsys.readouterr().out
