"""admin-fold: its claim on made-up results, and the fold itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.studies.papers.admin_fold import SKIPPED, AdminFold, fold_differences
from lamina.studies.papers.initial_models import initial_subject
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext
from support.made_results import Change, check_claims, rows
from support.made_runs import Labels, Values, made_results, scored


def trained(run: Labels) -> Values:
    half = run["precision"] == "fp16"
    return {**scored(35.6), **({SKIPPED: 9.0 if run["form"] == "rescaled" else 1.0} if half else {})}


PAPER = ResultTable(
    [
        *(row for stack in ("encoder", "decoder") for row in rows("difference", 1e-6, stack=stack)),
        *made_results(AdminFold(), trained),
    ]
)
BREAKING: dict[str, tuple[str, Change]] = {
    "A-30": ("difference", lambda row: 1e-3),
    "A-31": ("bleu", lambda row: 30.0 if row.labels["form"] == "rescaled" else 35.0),
    "A-32": (SKIPPED, lambda row: 1.0 if row.labels["form"] == "rescaled" else 9.0),
}


def test_claims() -> None:
    check_claims(AdminFold, PAPER, BREAKING)


def test_a_fold_that_forgets_omega_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = initial_subject(StudyContext(tmp_path, "micro"), "admin", (2, 2))
    assert max(fold_differences(subject.build(1), subject.passes[0]).values()) < 1e-5
    monkeypatch.setattr("lamina.residual.admin.absorb", lambda *arguments: None)
    torch.manual_seed(1)
    assert min(fold_differences(subject.build(1), subject.passes[0]).values()) > 1e-3
