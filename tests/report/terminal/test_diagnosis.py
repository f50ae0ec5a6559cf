"""A diagnosis on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.diagnosis.results import Diagnosis
from lamina.report.terminal.diagnosis import show_diagnoses
from support.made_diagnoses import HOSTILE, NEEDS_TRAINING, hostile, make


def shown(capsys: pytest.CaptureFixture[str], *diagnoses: Diagnosis) -> list[str]:
    show_diagnoses(diagnoses, Path("why.html"))
    return capsys.readouterr().out.splitlines()


def test_findings_with_remedies_come_first_then_what_was_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, make("post-ln"))
    assert lines[0].startswith("post-ln: 12-12 encoder–decoder, width 64, post-ln; at the start, mean and standard")
    assert lines[1].startswith("✗ the gradient of decoder layer 1")
    assert lines[2] == '  → model.residual = "b2t", "resi-dual" or "pre-ln"; or schedule.learning_rate < 3e-4'
    assert [line[:1] for line in lines[3:9]] == ["!", " ", "✓", "–", "–", ""]
    assert f"– not checked: unstable, vanished: {NEEDS_TRAINING}" in lines
    assert f"not measured: watched updates, watched weakest layer: {NEEDS_TRAINING}" in lines
    assert lines[-1] == "Took 42 s. Figures and all numbers: why.html"


def test_the_table_has_the_main_line_of_every_stack(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, make("post-ln"))
    rows = [line.split() for line in lines]
    assert ["gradient", "along", "stream", "encoder", "0.0449", "0.3"] in rows
    assert ["stream", "norms", "encoder", "stream", "64", "64"] in rows, "the first quantity of the stack"
    assert ["decoder", "stream", "64", "64"] in rows
    assert ["output", "change", "noise", "4·10⁻⁴", "0.01"] in rows


def test_names_are_text_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    markup = "[/x] [red]"
    diagnosis = make("pre-ln", name=markup)
    text = "\n".join(shown(capsys, diagnosis, hostile()))
    assert markup in text
    assert all(name in text for name in HOSTILE)
    assert "\x1b" not in text
    assert "\u202e" not in text
