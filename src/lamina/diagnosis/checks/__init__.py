"""The checks, one file each: a fault, its thresholds, and the sentence that describes the finding.

A file is a check if it defines a subclass of `base.Check`. Installed packages add checks through the entry-point group
`lamina.checks`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import Field, create_model

from lamina.diagnosis.checks.base import Check, CheckEvidence
from lamina.diagnosis.measurement import Measurement, NotMeasured
from lamina.diagnosis.measures.statistics import spread_of
from lamina.diagnosis.results import Finding, Severity
from lamina.options import Options
from lamina.registry import Registry

CHECKS = Registry[Check](__name__, Check, kind="check", group="lamina.checks", attribute="key")  # type: ignore[type-abstract]


def all_checks() -> list[Check]:
    """An instance of every check, in the order of a report."""
    return sorted((kind() for kind in CHECKS.members.values()), key=lambda each: (each.position, each.key))


class CheckThresholds(Options):
    """The thresholds of all installed checks, a table for each; `define_thresholds` adds the fields."""

    def of(self, check: Check) -> Any:
        """The thresholds of one check; the defaults of a check that was installed after this class was defined."""
        found = getattr(self, _field_of(check.key), None)
        return found if isinstance(found, Options) else check.Thresholds()


def define_thresholds() -> type[CheckThresholds]:
    """A class with a field for every installed check that has thresholds, so that a config is validated in full."""
    fields: dict[str, Any] = {
        _field_of(key): (check.Thresholds, Field(check.Thresholds(), description=f"Thresholds of the check {key}."))
        for key, check in CHECKS.members.items()
        if check.Thresholds.model_fields
    }
    return create_model("Thresholds", __base__=CheckThresholds, **fields)


def _field_of(key: str) -> str:
    return key.replace("-", "_")


def run_checks(
    measurements: Sequence[Measurement],
    not_measured: Sequence[NotMeasured] = (),
    *,
    schemes: Sequence[str] = (),
    thresholds: CheckThresholds | None = None,
    learning_rate: float | None = None,
    warmup: int | None = None,
    placements: Collection[str | None] = (),
    samples: Sequence[Sequence[Measurement]] = (),
    scale: float = 1.0,
) -> tuple[Finding, ...]:
    """The findings of all checks, the worst first; a check without its evidence gives the finding `not measured`.

    not_measured: the measures that were not taken, with the reasons.
    schemes: the residual schemes of the model, which are not suggested as remedies.
    thresholds: the thresholds of all checks; None for the defaults.
    learning_rate: the highest learning rate at which Adam will train the model; None if it is unknown.
    warmup: the number of steps in which the learning rate rises to its highest value; None if it is unknown.
    placements: the positions of the norms in the stacks, `pre` or `post`, which are not suggested as remedies either.
    samples: the same measurements of single seeds or batches; the spread of a value is their standard deviation times
        `scale`.
    """
    reasons = {each.key: each.reason for each in not_measured}
    evidence, *others = (
        CheckEvidence(each, schemes, learning_rate, warmup, placements) for each in (measurements, *samples)
    )
    found: list[Finding] = []
    for check in all_checks():
        chosen = check.Thresholds() if thresholds is None else thresholds.of(check)
        sampled = [_by_place(_judge(check, other, chosen, reasons)) for other in others]
        for place, finding in _by_place(_judge(check, evidence, chosen, reasons)).items():
            values = [value for each in sampled if place in each and (value := each[place].value) is not None]
            found.append(finding.model_copy(update={"spread": spread_of(values, scale)}))
    order = get_args(Severity)
    return tuple(sorted(found, key=lambda each: order.index(each.severity)))


def expects_failure(findings: Iterable[Finding]) -> bool:
    """Whether findings from before training say that it will fail."""
    return any(
        each.severity == "failure" and each.check in CHECKS and CHECKS[each.check].predicts_failure for each in findings
    )


def _judge(check: Check, evidence: CheckEvidence, thresholds: Options, reasons: Mapping[str, str]) -> list[Finding]:
    missing = [key for key in check.reads if evidence.get(key) is None]
    if missing and len(missing) == len(check.reads):
        reason = f": {reasons[missing[0]]}" if missing[0] in reasons else ""
        return [check.finding("not measured", f"{missing[0]} was not measured{reason}")]
    try:
        found = list(check.judge(evidence, thresholds))
    except Exception as error:  # a check may come from another package; the others must still be run
        return [check.finding("not measured", f"the check raised {type(error).__name__}: {error}")]
    return found or [check.finding("not measured", f"{check.reads[0]} holds nothing that could be judged")]


def _by_place(findings: Sequence[Finding]) -> dict[tuple[str | None, str | None, int], Finding]:
    """Findings by stack, stream and number, but not by layer: the worst layer may differ from sample to sample."""
    found: dict[tuple[str | None, str | None, int], Finding] = {}
    for each in findings:
        number = 0
        while (each.location.stack, each.location.stream, number) in found:
            number += 1
        found[each.location.stack, each.location.stream, number] = each
    return found
