"""A diagnosis that is printed and saved, and the report of a watch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from lamina.errors import UserError
from lamina.report.diagnosis_report import DiagnosisReport, ReportingWatch
from lamina.report.pages.diagnosis import diagnosis_page
from support.made_diagnoses import make
from support.small_models import small_stack


def test_a_report_has_the_findings_and_measurements_of_its_diagnosis() -> None:
    report = DiagnosisReport(make("post-ln"))
    assert report.findings == report.diagnosis.findings
    assert report["stream-norms"].key == "stream-norms"
    assert str(report) == diagnosis_page([report.diagnosis], "md")
    assert "post-ln" in str(report)


def test_the_form_of_the_file_follows_from_its_ending(tmp_path: Path) -> None:
    report = DiagnosisReport(make("post-ln"))
    for name in ("why.html", "why.md", "why.json"):
        report.save(str(tmp_path / name))
    assert "<!doctype html>" in (tmp_path / "why.html").read_text().lower()
    assert (tmp_path / "why.md").read_text() == str(report)
    assert json.loads((tmp_path / "why.json").read_text())
    with pytest.raises(UserError, match=r"why\.txt"):
        report.save(tmp_path / "why.txt")


def test_a_watch_reports_the_steps_so_far() -> None:
    model: nn.Module = small_stack("pre-ln", num_layers=2)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with ReportingWatch(model, optimiser, every=1) as watch:
        for _ in range(3):
            optimiser.zero_grad()
            model(torch.randn(4, 6)).square().mean().backward()
            optimiser.step()
        report = watch.report("mine")
    assert report.diagnosis.name == "mine"
    assert report["watched-gradients"].series[0].x == (1, 2, 3)
