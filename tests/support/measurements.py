"""Measurements for the tests of checks: made by hand, and of models at their initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from lamina.diagnosis.checks import run_checks
from lamina.diagnosis.examine import conclude, examine_model
from lamina.diagnosis.measurement import Fact, Location, Measurement, Series, SeriesRole
from lamina.diagnosis.measures import MEASURES
from lamina.diagnosis.results import Finding
from lamina.model.options import ModelOptions
from lamina.model.transformer import Transformer
from lamina.report.labels import remedy_text
from support.small_models import SMALL

WIDE: dict[str, Any] = SMALL | {"model_dim": 32, "feed_forward_dim": 64, "num_heads": 4}


def measurement(key: str, *series: Series, facts: Sequence[Fact] = ()) -> Measurement:
    """Numbers of a measure of Lamina."""
    return MEASURES[key]().measurement(series, facts=facts)


def line(*y: float, first: int = 1, quantity: str = "", role: SeriesRole = "measured", **location: Any) -> Series:
    """`line(0.1, 1.0, stack="decoder", matrix="outer")`, at x = 1, 2, …"""
    x = tuple(range(first, first + len(y)))
    return Series(location=Location(**location), quantity=quantity, role=role, x=x, y=y)


def fact(name: str, value: float, quantity: str = "", **location: Any) -> Fact:
    return Fact(name=name, value=value, quantity=quantity, location=Location(**location))


def findings(check: str, measurements: Sequence[Measurement], **options: Any) -> list[Finding]:
    """What one check finds; the options are those of `run_checks`."""
    return [each for each in run_checks(measurements, **options) if each.check == check]


@cache
def measured(scheme: str, depth: int, kind: str = "encoder-decoder") -> tuple[Measurement, ...]:
    """A model at its initialisation, on random sentences."""
    torch.manual_seed(1)
    model = Transformer.build(ModelOptions(kind=kind, residual=scheme, num_layers=depth, **WIDE))
    source, target, labels = torch.randint(3, 40, (3, 8, 12))
    inputs = (source, target) if kind == "encoder-decoder" else (source,)
    model.calibrate(*inputs)  # type: ignore[operator]
    examined = examine_model(model, [lambda model: model(*inputs, labels=labels).smoothed.mean()])
    return tuple(conclude(examined.measurements))


def advice(finding: Finding) -> str:
    """The remedies of a finding as a page shows them; empty where there are none."""
    return "; ".join(str(remedy_text(each, own_model=True)) for each in finding.remedies)
