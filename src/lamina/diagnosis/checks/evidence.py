"""What verdicts read from measures, and how they say it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from lamina import residual
from lamina.diagnosis.results import Measure, Series
from lamina.residual.base import Fault

Severity = Literal["fine", "warning", "failure"]


class Evidence:
    """The measures by key, the schemes that the model has now, and the highest rate at which it is to be trained."""

    def __init__(self, measures: Sequence[Measure], schemes: Sequence[str], rate: float | None = None) -> None:
        self._by_key = {measure.key: measure for measure in measures}
        self.schemes = tuple(schemes)
        self.rate = rate

    def get(self, key: str) -> Measure | None:
        return self._by_key.get(key)

    def cures(self, fault: Fault) -> str:
        """`pre-ln, b2t or resi-dual`: those that papers or our runs show free of a fault, but for those in use."""
        able = [each.name for each in residual.schemes() if fault in each.avoids and each.name not in self.schemes]
        return either(able) if able else "another residual scheme"


def either(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def line(measure: Measure, label: str) -> Series | None:
    return next((each for each in measure.measured if each.label == label), None)


def facts_ending(measure: Measure, ending: str) -> dict[str, float]:
    """The facts whose name is something followed by `ending`, by that something; numbers only."""
    return {
        name.removesuffix(ending).rstrip(): value
        for name, value in measure.facts.items()
        if name.endswith(ending) and not math.isnan(value)
    }


def grade(value: float, warning: float, failure: float) -> Severity:
    """How bad a value is that is the worse the larger."""
    return "failure" if value >= failure else "warning" if value >= warning else "fine"


def number(value: float) -> str:
    """Two digits, as a person writes them: 0.53, 12, 4.0·10⁻⁵."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if -3 < exponent < 5:
        return f"{value:,.{max(0, 1 - exponent)}f}"
    return f"{value / 10**exponent:.1f}·10{str(exponent).translate(_SUPERSCRIPT)}"


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
