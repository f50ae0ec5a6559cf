"""Does the loss fall along the planned update, for any optimiser?

A step at which the loss of its own batch rises overshoots: c* of at most 1 means that the first step does, if there is
no warm-up. Training recovers from that up to a few times the critical learning rate (Lewkowycz et al. 2020, the
catapult: between 2 and about 12 ÷ the curvature). In a warm-up of w steps the learning rate reaches the critical one
after c*·w steps; the critical one grows meanwhile (Kalra et al. 2026), so what counts is how many steps those are. A
loss that rises at every multiple means that the update points uphill.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import PositiveFloat

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measures.critical_learning_rate import ASSUMED, CRITICAL, LEARNING_RATE, MULTIPLE
from lamina.diagnosis.results import Action, Finding, Setting, Severity
from lamina.formatting import short
from lamina.options import Options


class StepSize(Check):
    class Thresholds(Options):
        warning: PositiveFloat = 1.0
        """c*, the multiple of the planned update at which the loss rises, up to which the planned step overshoots."""
        failure: PositiveFloat = 1 / 6
        """c*, up to which training does not recover: the catapult of Lewkowycz et al. 2020 ends at about six times the
        critical learning rate."""
        long_warmup: PositiveFloat = 100.0
        """Number of steps of the warm-up before the critical learning rate, from which on an overshoot at the highest
        learning rate is no fault; from a tenth of it on it is only a warning."""

    reads = ("critical-learning-rate",)
    position = 42

    def judge(self, evidence: CheckEvidence, thresholds: Thresholds) -> Iterator[Finding]:
        measurement = evidence.get("critical-learning-rate")
        values = {each.name: each.value for each in measurement.facts} if measurement else {}
        if not values:
            return
        multiple, critical, planned = values[MULTIPLE], values[CRITICAL], values[LEARNING_RATE]
        if multiple == 0:
            yield self._uphill(planned)
            return
        known = f"the loss of a batch rises along its own update from a learning rate of {short(critical)} on"
        if values[ASSUMED] == 1:
            yield self.finding("not measured", f"{known}; the planned learning rate is not known", value=critical)
            return
        severity = _severity(multiple, evidence.warmup or 0, thresholds)
        threshold = thresholds.failure if severity == "failure" else thresholds.warning
        sentence = f"{known}, {short(multiple)} times the planned {short(planned)}"
        if severity != "fine":
            sentence += ": steps overshoot"
        elif multiple > thresholds.warning:
            sentence += f", above the threshold of {short(threshold)}"
        else:
            sentence += f", which the warm-up reaches only after {multiple * (evidence.warmup or 0):,.0f} steps"
        yield self.finding(
            severity,
            sentence,
            value=multiple,
            threshold=threshold,
            remedies=(
                Setting(key="schedule.learning_rate", relation="<", value=critical),
                Setting(key="schedule.warmup_steps", relation=">", value=thresholds.long_warmup),
            ),
        )

    def _uphill(self, planned: float) -> Finding:
        return self.finding(
            "failure",
            "the loss of a batch rises along its own update, also at a thousandth of the learning rate "
            f"{short(planned)}: the update points uphill",
            value=0.0,
            threshold=0.0,
            remedies=(Action(text="check the sign of the loss and maximize=False of the optimiser"),),
        )


def _severity(multiple: float, warmup: int, thresholds: StepSize.Thresholds) -> Severity:
    steps = min(multiple, 1.0) * warmup  # of the warm-up, before the critical learning rate
    if multiple > thresholds.warning or steps >= thresholds.long_warmup:
        return "fine"
    return "failure" if multiple <= thresholds.failure and steps < thresholds.long_warmup / 10 else "warning"
