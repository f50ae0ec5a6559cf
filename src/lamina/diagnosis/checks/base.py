"""The base class of checks: a check reads measurements, compares them with its thresholds, and yields findings.

A check is one file of this folder, discovered by its name (`vanishing.py` holds the check `vanishing`), or a class that
an installed package adds through the entry-point group `lamina.checks`. It declares its own thresholds, which a config
sets under `[diagnose.thresholds.<check>]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import PositiveFloat, PositiveInt

from lamina import residual
from lamina.diagnosis.measurement import Location, Measurement
from lamina.diagnosis.results import Finding, Remedy, SchemeTrait, Setting, Severity
from lamina.options import Options
from lamina.residual.base import Fault

POSITIONS = ("pre", "post")
"""The positions of norms that a scheme is named after."""
GENTLE = "; at the planned learning rate or warm-up models with this fault usually train"
"""Added to the sentence of a failure that is only a warning because of how the model will be trained."""


class GentleTraining(Options):
    """Thresholds of checks whose fault depends on how the model is trained."""

    small_learning_rate: PositiveFloat = 1e-4
    """The highest learning rate up to which a failure is only a warning, as in fine-tuning."""
    long_warmup: PositiveInt = 4000
    """Number of steps of a warm-up from which on a failure is only a warning: with it post-LN of 6-6 layers trains
    (Vaswani et al. 2017; Xiong et al. 2020, figure 2)."""


def gentle_settings(options: GentleTraining) -> tuple[Setting, Setting]:
    """The settings with which models usually train in spite of the fault; the learning rate is that of fine-tuning."""
    return (
        Setting(key="schedule.warmup_steps", relation=">", value=options.long_warmup),
        Setting(key="schedule.learning_rate", relation="<", value=options.small_learning_rate),
    )


class CheckEvidence:
    """The evidence of checks: the measurements by key, the schemes in use, and the highest planned learning rate."""

    def __init__(
        self,
        measurements: Sequence[Measurement],
        schemes: Sequence[str] = (),
        learning_rate: float | None = None,
        warmup: int | None = None,
        placements: Collection[str | None] = (),
    ) -> None:
        self._by_key: Mapping[str, Measurement] = {each.key: each for each in measurements}
        self.schemes = tuple(schemes)
        # Of an unknown position neither is suggested: it might be the one that the model has.
        positions = [position for each in placements for position in ((each,) if each else POSITIONS)]
        self._in_use = {*schemes, *(f"{each}-ln" for each in positions)}
        self.learning_rate = learning_rate
        """The highest learning rate at which Adam will train the model; None if it is unknown."""
        self.warmup = warmup
        """The number of steps in which the learning rate rises to its highest value; None if it is unknown."""

    def trains_gently(self, options: GentleTraining) -> bool:
        """Whether a small learning rate or a long warm-up is planned, with which unstable models usually train."""
        is_small = self.learning_rate is not None and self.learning_rate <= options.small_learning_rate
        return is_small or (self.warmup is not None and self.warmup >= options.long_warmup)

    def get(self, key: str) -> Measurement | None:
        return self._by_key.get(key)

    def schemes_that_avoid(self, fault: Fault) -> SchemeTrait:
        """The remedy of another residual scheme: the schemes that avoid a fault, according to papers or our runs."""
        able = (each.name for each in residual.schemes() if fault in each.avoids and each.name not in self._in_use)
        return SchemeTrait(avoids=fault, schemes=tuple(able))


class Check(ABC):
    """The base class of all checks."""

    class Thresholds(Options):
        """The thresholds of the check; the description of each says where it comes from."""

    key: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]
    """Keys of the measures that it reads. If none of them was taken, the check is reported as not measured."""
    predicts_failure: ClassVar[bool] = False
    """Whether a failure found before training means that training is expected to fail."""
    position: ClassVar[int] = 1000
    """The position in a report: lower numbers come first."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls.key = cls.__module__.rpartition(".")[2].replace("_", "-")

    @abstractmethod
    def judge(self, evidence: CheckEvidence, thresholds: Any) -> Iterable[Finding]:
        """Yield one finding for every stack or location that could be checked, including those that are fine."""

    def finding(
        self,
        severity: Severity,
        sentence: str,
        *,
        location: Location | None = None,
        value: float | None = None,
        threshold: float | None = None,
        remedies: Sequence[Remedy] = (),
    ) -> Finding:
        return Finding(
            check=self.key,
            severity=severity,
            sentence=sentence,
            location=location or Location(),
            value=value,
            threshold=threshold,
            remedies=tuple(remedies) if severity in ("warning", "failure") else (),
        )


def grade(value: float, warning: float, failure: float) -> Severity:
    """The severity of a value for which larger is worse."""
    return "failure" if value >= failure else "warning" if value >= warning else "fine"
