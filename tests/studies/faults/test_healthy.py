"""Healthy stock models: two in continuous integration, all of them nightly."""

from __future__ import annotations

from typing import Any

import pytest

from lamina.studies.faults.healthy import NAMED, STOCK, TORCH, alarms, diagnose

IN_CI = ("Mistral", "DistilBERT")


def models() -> list[Any]:
    names = (*STOCK, *TORCH)
    return [
        pytest.param(name, marks=[pytest.mark.peers, *([] if name in IN_CI else [pytest.mark.nightly])])
        for name in names
    ]


def test_there_are_enough() -> None:
    assert len(NAMED) == 8
    assert len(STOCK) + len(TORCH) >= 20


@pytest.mark.parametrize("name", models())
def test_nothing_is_found(name: str) -> None:
    if name in STOCK:
        pytest.importorskip("transformers")
    assert [f"{each.check}: {each.sentence}" for each in alarms(diagnose(name))] == []
