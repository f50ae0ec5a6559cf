"""Does the loss fall along the planned update, for any optimiser?

A step at which the loss of its own batch rises overshoots: c* below 1 means that the very first step does, if there is
no warm-up. The loss that rises at every multiple means that the update points uphill.
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
        warning: PositiveFloat = 4.0
        """c*, the multiple of the planned update at which the loss rises, below which it is a warning without a
        warm-up."""
        failure: PositiveFloat = 1.0
        """c*, below which the planned step overshoots."""
        long_warmup: PositiveFloat = 100.0
        """Number of steps of a warm-up from which on a first step that overshoots at the highest learning rate is no
        fault: Kalra et al. 2026 find that the critical learning rate grows in the warm-up."""

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
        warms_up = evidence.warmup is not None and evidence.warmup >= thresholds.long_warmup
        severity: Severity = (
            "failure" if multiple <= thresholds.failure else "warning" if multiple < thresholds.warning else "fine"
        )
        if warms_up and severity != "fine":
            severity = "fine" if severity == "warning" else "warning"
        threshold = thresholds.failure if severity == "failure" else thresholds.warning
        sentence = f"{known}, {short(multiple)} times the planned {short(planned)}"
        sentence += f", above the threshold of {short(threshold)}" if severity == "fine" else ": steps overshoot"
        yield self.finding(
            severity,
            sentence,
            value=multiple,
            threshold=threshold,
            remedies=(
                Setting(key="schedule.learning_rate", relation="<", value=critical / thresholds.warning),
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
