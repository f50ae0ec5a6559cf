"""The public `lamina.diagnose` and `lamina.watch`: measure a model in Python, read the verdicts, save the page.

report = lamina.diagnose(model, batch, loss=fn)
report.verdicts
report.save("why.html")

with lamina.watch(model, optimizer, every=100) as watch:
    …  # your own training loop
watch.report().save("why.html")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lamina.data.progress import Progress, no_progress
from lamina.diagnose.examine import examine
from lamina.diagnose.results import Diagnosis, Measure, Verdict
from lamina.diagnose.subject import OUTPUT_DEPTHS, subject_of
from lamina.diagnose.thresholds import VerdictOptions
from lamina.diagnose.watch import Watch
from lamina.report.diagnosis import page, save


@dataclass(frozen=True)
class Report:
    """A diagnosis that can be shown. `print(report)` is its Markdown."""

    diagnosis: Diagnosis

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return self.diagnosis.verdicts

    def __getitem__(self, key: str) -> Measure:
        """A measure by its key: `report["gradient-by-layer"]`."""
        return self.diagnosis[key]

    def save(self, file: str | Path) -> None:
        """Write the page: .html, .md, or .json for the numbers."""
        save([self.diagnosis], Path(file))

    def __str__(self) -> str:
        return page([self.diagnosis], "md")


def diagnose(
    module_or_factory: nn.Module | Callable[..., nn.Module],
    batch: Any,
    loss: Callable[..., Tensor] | None = None,
    *,
    seeds: int = 5,
    batches: int = 4,
    depths: Sequence[int] = OUTPUT_DEPTHS,
    name: str | None = None,
    rate: float | None = None,
    thresholds: VerdictOptions | None = None,
    progress: Progress = no_progress,
) -> Report:
    """Measure why a model trains, or does not.

    module_or_factory: any torch module, or a function of a seed that makes one. A module gives the spread over batches,
        a factory the spread over seeds; measures against depth need one that takes `num_layers` too.
    batch: what the module is called with: a tensor, a tuple, a dictionary; or a list of such. A single one is cut into
        `batches` pieces along its first dimension, where its tensors agree on that.
    loss: a function of the output, or of the output and the batch, that gives a single number. Without it the output's
        own `loss` is used; without that, the mean of the output along a fixed random direction.
    seeds: how many models of a factory.
    depths: the numbers of layers at which the change of the output is measured, where a factory takes `num_layers`; the
        paper goes up to 100, of two sub-layers each, which takes its time.
    rate: the highest learning rate at which Adam will train it, to hear whether that is too high.
    thresholds: from which numbers on a verdict warns, where they are not the usual ones.

    The module's weights, gradients, buffers and modes are left as they were, and so is the random state.
    """
    subject = subject_of(
        module_or_factory, batch, loss, batches=batches, depths=depths, name=name, rate=rate, thresholds=thresholds
    )
    return Report(examine(subject, seeds=seeds, progress=progress))


class watch(Watch):  # noqa: N801  (used as a function: with lamina.watch(…))
    """Around anybody's own training loop; see `lamina.diagnose.watch`."""

    def report(self, name: str = "") -> Report:
        """What was seen so far, with verdicts."""
        return Report(self.diagnosis(name))
