"""The measures, one file each: a formula, the paper and figure it comes from, and its computation.

A file is a measure if it defines a subclass of `base.Measure`; the others (`base`, `statistics`, `reading`,
`layer_gradients`, `contributions`, `watched_series`) are shared code. Installed packages add measures through the
entry-point group `lamina.measures`.
"""

from __future__ import annotations

from lamina.diagnosis.measurement import Measurement, NotMeasured
from lamina.diagnosis.measures.base import Evidence, Measure, Need, NotMeasurable
from lamina.registry import Registry

MEASURES = Registry[Measure](__name__, Measure, kind="measure", group="lamina.measures", attribute="key")  # type: ignore[type-abstract]

RESULT_VERSION = 4
"""The result version of all measures and checks.

Increase it when one gives other values for the same model. Runs that were diagnosed by another version, or by other
measures and checks, are diagnosed again; they are not trained again.
"""


def all_measures() -> list[Measure]:
    """An instance of every measure, in the order of a report."""
    return sorted((kind() for kind in MEASURES.members.values()), key=lambda each: (each.position, each.key))


def measures_that_need(need: Need) -> list[Measure]:
    """The measures for which this evidence is enough, in the order of a report."""
    return [each for each in all_measures() if need in each.needs]


def take(measure: Measure, evidence: Evidence) -> Measurement | NotMeasured:
    """The measurement, or the reason why there is none."""
    try:
        return measure.take(evidence)
    except NotMeasurable as reason:
        return NotMeasured(key=measure.key, reason=str(reason))
    except Exception as error:  # one measure that fails on an unusual model must not stop the others
        return NotMeasured(key=measure.key, reason=f"the measure raised {type(error).__name__}: {error}")
