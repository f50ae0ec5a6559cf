"""What a watch sees at one step of the optimiser, and the file that keeps it until training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from lamina.diagnosis.results import Result
from lamina.diagnosis.watching.step_probe import StepSizes
from lamina.diagnosis.watching.stream_probe import StreamSizes
from lamina.errors import UserError
from lamina.files.atomic import write_file


@dataclass(frozen=True)
class Departure:
    """Updates that have left their band."""

    step: int
    matrix: str
    """The one that went furthest."""
    times: float
    """Its update, divided by the rate, is this many times the usual one."""
    outside: int
    total: int

    def __str__(self) -> str:
        return (
            f"step {self.step}: the update of {self.matrix} is {self.times:.3g} times its usual size at this rate, and "
            f"{self.outside} of {self.total} matrices have left their band; the loss may follow. Look at this batch, "
            "lower the learning rate or lengthen its warm-up, or clip the gradient"
        )


@dataclass(frozen=True)
class Vanished:
    """A layer of the last stack that is left with hardly any gradient."""

    step: int
    stack: str
    layer: int
    """Counted from 1."""
    last: int
    share: float
    """Its gradient ÷ that of the last layer."""

    def __str__(self) -> str:
        return (
            f"step {self.step}: the gradient of {self.stack} layer {self.layer} is {self.share:.2g} of layer "
            f"{self.last}'s: hardly anything of the loss reaches it any more, and the loss is likely to stay where it "
            "is. Lower the learning rate, lengthen its warm-up, or choose a residual scheme that keeps the gradient"
        )


Trouble = Departure | Vanished


class Look(Result):
    """One watched step."""

    step: int
    sizes: StepSizes
    streams: StreamSizes
    outside: dict[str, float] = {}
    """The matrices whose update left its band, and how many times the usual it was."""
    departed: bool = False
    """Whether enough of them left at once to be called trouble."""

    def values(self) -> dict[str, float]:
        """Flat, for a log: `update/decoder.3.query`, `stream/decoder.3` and so on, layers counted from 1."""
        found = {f"gradient/{name}": norm for name, norm in self.sizes.gradients.items()}
        found |= {f"update/{name}": norm for name, norm in self.sizes.updates.items()}
        for stack, sizes in self.streams.sizes.items():
            found |= {f"stream/{stack}.{layer}": size for layer, size in enumerate(sizes, 1) if not isnan(size)}
        found |= {f"stream_peak/{stack}": peak for stack, peak in self.streams.peaks.items()}
        if self.sizes.condition is not None:
            found["condition"] = self.sizes.condition.facts["κ"]
        return found | {"updates_outside": float(len(self.outside))}

    @property
    def furthest(self) -> tuple[str, float]:
        """The matrix whose update is furthest from its usual size, up or down, and how many times that it is."""
        return max(self.outside.items(), key=lambda item: distance(item[1]))


def distance(times: float) -> float:
    return max(times, 1 / times) if isfinite(times) else inf


class _Looks(Result):
    version: Literal[1] = 1
    looks: tuple[Look, ...]


def write_looks(file: Path, looks: Sequence[Look]) -> None:
    write_file(file, _Looks(looks=tuple(looks)).model_dump_json().encode())


def read_looks(file: Path, until: int) -> list[Look]:
    """Those up to a step, where training goes on from there; none if nothing was written."""
    try:
        looks = _Looks.model_validate_json(file.read_bytes()).looks
    except FileNotFoundError:
        return []
    except ValidationError as error:
        raise UserError(
            f"{file}: damaged, or of another version; without it training goes on, but what was watched before is lost"
        ) from error
    return [look for look in looks if look.step <= until]
