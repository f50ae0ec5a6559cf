"""The public `lamina.diagnose` and `lamina.watch`: measure a model in Python, read the verdicts, save the page.

report = lamina.diagnose(model, batch, loss=fn)
report.verdicts
report.save("why.html")

with lamina.watch(model, optimiser, every=100) as watch:
    …  # your own training loop
watch.report().save("why.html")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from lamina.diagnosis.examine import examine
from lamina.diagnosis.options import DiagnoseOptions, Thresholds
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.subject import OUTPUT_DEPTHS, subject_of
from lamina.diagnosis.watching.alarms import Alarm
from lamina.diagnosis.watching.observation import Observation
from lamina.diagnosis.watching.watch import warn
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress
from lamina.interop.hugging_face import is_model_folder, pretrained_subject
from lamina.report.diagnosis_report import DiagnosisReport, ReportingWatch
from lamina.runs.diagnose import Extent, diagnose_run_or_config


def diagnose(
    module_or_factory: nn.Module | Callable[..., nn.Module],
    batch: Any,
    loss: Callable[..., Tensor] | None = None,
    *,
    seeds: int = 5,
    batches: int = 4,
    depths: Sequence[int] = OUTPUT_DEPTHS,
    name: str | None = None,
    learning_rate: float | None = None,
    thresholds: Thresholds | None = None,
    progress: Progress = no_progress,
) -> DiagnosisReport:
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
    learning_rate: the highest learning rate at which Adam will train it, to check whether that is too high.
    thresholds: the thresholds of the checks, where they are not the defaults.

    The module's weights, gradients, buffers and modes are left as they were, and so is the random state.
    """
    subject = subject_of(
        module_or_factory,
        batch,
        loss,
        batches=batches,
        depths=depths,
        name=name,
        learning_rate=learning_rate,
        thresholds=thresholds,
    )
    return DiagnosisReport(examine(subject, seeds=seeds, progress=progress))


def watch(
    model: nn.Module,
    optimiser: Optimizer,
    *,
    every: int = 100,
    step: int = 0,
    history: Sequence[Observation] = (),
    options: DiagnoseOptions | None = None,
    on_warning: Callable[[Alarm], None] = warn,
) -> ReportingWatch:
    """Watch a model while your own loop trains it: `with lamina.watch(model, optimiser, every=100) as watch:`.

    The arguments are those of `lamina.diagnosis.watching.watch.Watch`.
    """
    return ReportingWatch(
        model, optimiser, every=every, step=step, history=history, options=options, on_warning=on_warning
    )


def diagnose_paths(arguments: Sequence[str], extent: Extent, progress: Progress = no_progress) -> list[Diagnosis]:
    """Diagnose configs, run folders, model folders and files of diagnoses; `key=value` arguments override configs.

    The diagnoses of a run are stored in its folder, under diagnosis/.
    """
    overrides = [each for each in arguments if "=" in each and not Path(each).exists()]
    paths = [Path(each) for each in arguments if each not in overrides]
    if not paths:
        raise UserError("say what to diagnose: a config, a run folder, or a folder with config.json and safetensors")
    found: list[Diagnosis] = []
    for path in paths:
        if not is_model_folder(path):
            found += diagnose_run_or_config(path, overrides, extent, progress)
            continue
        if overrides:
            raise UserError(f"{path}: {overrides[0]} changes a config, but this is a folder with a model")
        subject = pretrained_subject(path, batches=extent.batches, tokens=extent.tokens, depths=extent.output_depths)
        found.append(examine(subject, seeds=extent.seeds, progress=progress))
    return found
