"""The measures that a diagnosis does not take, with the evidence that each lacks and how to provide it."""

from __future__ import annotations

from lamina.diagnosis.measurement import MissingEvidence, NotMeasured
from lamina.diagnosis.measures import all_measures
from lamina.diagnosis.measures.base import Need


def lacking(available: set[Need]) -> list[NotMeasured]:
    """The measures for which none of the available evidence is enough."""
    return [
        NotMeasured(key=each.key, reason=" or ".join(REASONS[every] for every in lacks), lacks=lacks)
        for each in all_measures()
        if not available & set(each.needs)
        for lacks in [tuple(dict.fromkeys(MISSING[need] for need in each.needs))]
    ]


def left_out_of_quick() -> list[NotMeasured]:
    """The measures that a quick diagnosis leaves out."""
    slow = [each for each in all_measures() if not each.quick]
    return [NotMeasured(key=each.key, reason=REASONS["quick"], lacks=("quick",)) for each in slow]


MISSING: dict[Need, MissingEvidence] = {
    "record": "passes",
    "gradients": "passes",
    "model": "passes",
    "optimiser": "training",
    "history": "training",
    "factory": "depths",
    "widths": "widths",
}
REASONS: dict[MissingEvidence, str] = {
    "quick": "it takes too long for a quick diagnosis, and is part of the full one, without quick",
    "passes": "it needs passes of its own: lamina.diagnose(model, batch), or lamina diagnose on a config or a run",
    "training": "it follows an optimiser in training: lamina.watch(model, optimiser), or diagnose.every in a config",
    "depths": "it compares models of several depths and needs a config, or a factory that takes num_layers: "
    "lamina.diagnose(lambda seed, num_layers=6: …, batch)",
    "widths": "it compares models of several widths and needs a config, or a factory that takes width: "
    "lamina.diagnose(lambda seed, width=512: …, batch)",
}
