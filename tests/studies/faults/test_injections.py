"""The faults of the grid: a few in continuous integration, all of them nightly."""

from __future__ import annotations

from typing import Any

import pytest

from lamina.diagnosis.checks import CHECKS
from lamina.studies.faults.grid import MODELS, run_fault, run_healthy
from lamina.studies.faults.injections import FAULTS

IN_CI = ("labels not shifted", "residual missing", "dead units (bias −10)", "learning rate 0 for a layer")
NOT_NAMED = {("deep post-norm, no warm-up", "GPT-2")}
"""Faults that the diagnosis does not name."""


def cases() -> list[Any]:
    return [
        pytest.param(fault, model, marks=() if fault.name in IN_CI and model == "plain torch" else pytest.mark.nightly)
        for fault in FAULTS
        for model in MODELS
    ]


def test_there_are_enough_and_each_names_a_check() -> None:
    assert len(FAULTS) >= 25
    assert len({each.name for each in FAULTS}) == len(FAULTS)
    assert set(IN_CI) <= {each.name for each in FAULTS}
    assert {check for each in FAULTS for check in each.checks} - set(CHECKS) == {"refused"}


@pytest.mark.parametrize(("fault", "model"), cases())
def test_a_fault_is_named_with_its_module(fault: Any, model: str) -> None:
    if model == "GPT-2":
        pytest.importorskip("transformers")
    found = run_fault(fault, model)
    if (fault.name, model) in NOT_NAMED:
        assert not found.named_by, "it is named now: take it off the list"
    else:
        assert found.named_by in fault.checks
        assert found.module is not False


@pytest.mark.parametrize("model", ["plain torch", pytest.param("GPT-2", marks=pytest.mark.nightly)])
def test_the_healthy_models_are_fine(model: str) -> None:
    if model == "GPT-2":
        pytest.importorskip("transformers")
    assert run_healthy(model).others == ()
