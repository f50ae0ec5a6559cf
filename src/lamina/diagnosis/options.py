"""The options of diagnosis during training, `[diagnose]` in a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from lamina.diagnosis.checks import CheckThresholds, define_thresholds
from lamina.diagnosis.watching.alarms import BandOptions
from lamina.diagnosis.watching.spikes import SpikeOptions
from lamina.errors import unknown
from lamina.options import Options, note_renamed

if TYPE_CHECKING:
    Thresholds = CheckThresholds
else:
    Thresholds = define_thresholds()

FORMER_THRESHOLDS: dict[str, tuple[tuple[str, str], ...]] = {
    "vanishing_warning": (("vanishing", "warning"),),
    "vanishing_failure": (("vanishing", "failure"), ("learning_rate", "gradient_share")),
    "vanished": (("vanished", "share"),),
    "reach_warning": (("learning_rate", "warning"),),
    "reach_failure": (("learning_rate", "failure"),),
    "shrinking": (("vanishing", "shrinking"),),
    "amplification_warning": (("amplification", "warning"),),
    "amplification_failure": (("amplification", "failure"),),
    "collapse": (("collapse", "warning"),),
    "conditioning_warning": (("conditioning", "warning"),),
    "conditioning_failure": (("conditioning", "failure"),),
    "half_precision": (("overflow", "half_precision"),),
    "headroom": (("overflow", "headroom"),),
    "peak": (("overflow", "peak"),),
}
"""The keys of the former table `[diagnose.verdicts]`, each with the check and the key that replace it."""


class DiagnoseOptions(Options):
    every: Annotated[int, Field(ge=0)] = 0
    """Steps between observations of gradients, updates, Adam's conditioning and residual streams while training; 0
    for none. Up to step 50 every fifth step is observed."""
    band: BandOptions = BandOptions()
    """The band outside which an update counts as unusual."""
    spikes: SpikeOptions = SpikeOptions()
    """What counts as a spike of the loss or of the gradient norm."""
    thresholds: Thresholds = Thresholds()
    """The thresholds of the checks, a table for each."""

    @model_validator(mode="before")
    @classmethod
    def _accept_former_thresholds(cls, values: Any) -> Any:
        """Read `verdicts`, which was replaced by `thresholds`, with a note that names the new keys; for one version."""
        if not isinstance(values, Mapping) or "verdicts" not in values:
            return values
        former = values["verdicts"]
        if not isinstance(former, Mapping):
            raise ValueError("verdicts is a table, and was replaced by thresholds")
        thresholds = {check: dict(given) for check, given in dict(values.get("thresholds", {})).items()}
        renamed: list[str] = []
        for name, value in former.items():
            if name not in FORMER_THRESHOLDS:
                raise ValueError(f"verdicts: {unknown('option', name, FORMER_THRESHOLDS)}")
            for check, key in FORMER_THRESHOLDS[name]:
                thresholds.setdefault(check, {}).setdefault(key, value)
            renamed.append(f"{name} is now {' and '.join('.'.join(new) for new in FORMER_THRESHOLDS[name])}")
        note = f"diagnose.verdicts was replaced by diagnose.thresholds: {', '.join(renamed)}"
        note_renamed(note)
        return {**{key: value for key, value in values.items() if key != "verdicts"}, "thresholds": thresholds}
