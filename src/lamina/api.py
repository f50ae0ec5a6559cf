"""The public functions: train, compare, search, load, diagnose and watch.

run = lamina.train("own.toml", ["model.residual=b2t"], folder="runs/b2t")
run.generate(["Guten Morgen!"])

report = lamina.diagnose(model, batch, loss=fn)
report.save("why.html")

with lamina.watch(model, optimiser, every=100) as watch:
    …  # your own training loop
watch.report().save("why.html")
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from lamina.config import read_values
from lamina.diagnosis.examine import examine
from lamina.diagnosis.options import DiagnoseOptions, Thresholds
from lamina.diagnosis.results import Diagnosis, NoDiagnosis, read_diagnoses
from lamina.diagnosis.subject import OUTPUT_DEPTHS, subject_of
from lamina.diagnosis.watching.alarms import Alarm
from lamina.diagnosis.watching.observation import Observation
from lamina.diagnosis.watching.watch import warn
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress
from lamina.interop.hugging_face import is_model_folder, pretrained_subject
from lamina.interop.imports.import_run import import_run
from lamina.report.comparison_report import ComparisonReport
from lamina.report.diagnosis_report import DiagnosisReport, ReportingWatch
from lamina.report.pages.page import form_of
from lamina.run_folder.checkpoints import BEST
from lamina.run_folder.folder import RunFolder
from lamina.runs.diagnose import Extent, diagnose_config
from lamina.runs.run import Run, read_config
from lamina.studies.cells import make_cells
from lamina.studies.compare import compare as compare_cells
from lamina.studies.compare import prepare_cells
from lamina.studies.engines import Engine
from lamina.studies.search.page import save_search
from lamina.studies.search.result import IncompleteSearch, SearchResult, run_search
from lamina.studies.search.settings import read_search
from lamina.training.callbacks.base import Callback
from lamina.training.config import RunConfig


def train(
    config: RunConfig | Mapping[str, Any] | str | Path,
    overrides: Sequence[str] = (),
    *,
    folder: str | Path | None = None,
    force: bool = False,
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train a model, or resume an interrupted run. Returns the run; its `summary()` has the final state.

    config: a TOML file, the folder of a run to resume, a `RunConfig`, or its values as a dictionary.
    overrides: settings that replace those of a file, as `key=value`: `["model.residual=b2t", "train.steps=2000"]`.
    folder: the run folder. By default the one that is given as config, or else `runs/` and the name of the file, or of
        the task if there is no file.
    force: resume although config or data have changed since the run was started.
    quiet: print nothing.
    callbacks: see `lamina.training.callbacks.base.Callback`.

    A run that diverges is a result, not an error: its state is then `failed`.
    """
    if isinstance(config, str | Path):
        path = Path(config)
        chosen, default = read_config(path, overrides), path if path.is_dir() else Path("runs", path.stem)
    else:
        values, where = _read_values(config, overrides)
        chosen = config if isinstance(config, RunConfig) else RunConfig.read(values, where=where)
        default = Path("runs", chosen.task)
    run = Run(chosen, default if folder is None else folder)
    run.train(force=force, quiet=quiet, callbacks=callbacks)
    return run


def compare(
    config: RunConfig | Mapping[str, Any] | str | Path,
    schemes: Sequence[str],
    depths: Sequence[int | tuple[int, int] | str] = (),
    seeds: int = 1,
    *,
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
    report: str | Path | None = None,
    engine: Engine | None = None,
) -> ComparisonReport:
    """Train the same model under several schemes; returns a report with a run for every scheme, depth and seed.

    config: a TOML file, a `RunConfig`, or its values as a dictionary.
    schemes: `"b2t"`, or `"post-ln/pre-ln"` if encoder and decoder differ.
    depths: numbers of layers: `12`, or `(60, 12)` for encoder and decoder; by default that of the config.
    seeds: the number of seeds of each scheme and depth, counted from the config's seed.
    overrides: settings that replace those of a file, as `key=value`.
    folder: the folder of the runs; by default `runs/`, the name of the file or task, and `-compared`.
    report: the file of the report, .html or .md; by default `report.html` in that folder.
    engine: the engine that trains the runs; by default processes of this machine, as many as cores and memory allow.

    Runs that are finished are reused; an interrupted comparison is resumed.
    """
    values, where = _read_values(config, overrides)
    name = Path(config).stem if isinstance(config, str | Path) else values.get("task", RunConfig().task)
    place = Path("runs", f"{name}-compared") if folder is None else Path(folder)
    cells = make_cells(values, schemes, depths, seeds, where=where)
    return compare_cells(cells, place, place / "report.html" if report is None else report, engine=engine)


def prepare_comparison(
    config: RunConfig | Mapping[str, Any] | str | Path,
    schemes: Sequence[str],
    depths: Sequence[int | tuple[int, int] | str] = (),
    seeds: int = 1,
    *,
    overrides: Sequence[str] = (),
    folder: str | Path,
) -> list[Path]:
    """Make the run folders of a comparison without training anything; returns those of the runs that have no result.

    The arguments are those of `compare`, which reads the results once the runs have been trained in any way.
    """
    values, where = _read_values(config, overrides)
    return prepare_cells(make_cells(values, schemes, depths, seeds, where=where), Path(folder))


def search(
    config: Mapping[str, Any] | str | Path,
    *,
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
    report: str | Path | None = None,
    engine: Engine | None = None,
) -> SearchResult:
    """Train every combination of the values in the section `[search]` of a config, each with several seeds.

    config: a TOML file, or its values as a dictionary.
    overrides: settings that replace those of a file, as `key=value`, such as `search.train.epochs=[3,5]`.
    folder: the folder of the runs; by default `runs/`, the name of the file or task, and `-search`.
    report: the file of the page, .html or .md; by default `search.html` in that folder.
    engine: the engine that trains the runs; by default processes of this machine, as many as cores and memory allow.

    Runs that are finished are reused; an interrupted search is resumed.
    """
    values, where = _read_values(config, overrides)
    name = Path(config).stem if isinstance(config, str | Path) else values.get("task", RunConfig().task)
    place = Path("runs", f"{name}-search") if folder is None else Path(folder)
    page = place / "search.html" if report is None else Path(report)
    form_of(page)  # before the work, not after it
    settings, cells = read_search(values, where)
    try:
        result = run_search(settings, cells, place, engine)
    except IncompleteSearch as incomplete:
        save_search(incomplete.result, page)
        raise
    save_search(result, page)
    return result


def load(path: str | Path, checkpoint: str = BEST, *, generation: Mapping[str, Any] | None = None) -> Run:
    """Load a trained run with its model, on a GPU if there is one.

    checkpoint: `best`, `latest`, `average` or `step-…`.
    generation: options of `GenerateOptions` that replace those of the config, in evaluations too.
    """
    return Run(path).load(checkpoint, generation=generation)


def import_model(source: str | Path, folder: str | Path, *, read_pt: bool = False, pairs: bool = False) -> Run:
    """Make a run from a checkpoint of another library: a BERT, GPT-2, Llama or Marian of transformers, or of fairseq.

    source: a folder with config.json and safetensors, or a .pt file of fairseq beside its dictionaries.
    folder: the new run folder.
    read_pt: read a pickled checkpoint, by torch's restricted reader; otherwise only safetensors are read.
    pairs: whether a classifier labels pairs of sentences.

    What differs from the foreign model is said in warnings.
    """
    imported = import_run(source, folder, read_pt=read_pt, pairs=pairs)
    for note in imported.notes:
        warnings.warn(note, stacklevel=2)
    return imported.run


def diagnose(
    module_or_factory: nn.Module | Callable[..., nn.Module],
    batch: Any,
    loss: Callable[..., Tensor] | None = None,
    *,
    seeds: int = 5,
    batches: int = 4,
    depths: Sequence[int] = OUTPUT_DEPTHS,
    name: str | None = None,
    optimiser: Optimizer | Callable[[nn.Module], Optimizer] | None = None,
    learning_rate: float | None = None,
    warmup: int | None = None,
    thresholds: Thresholds | None = None,
    quick: bool = False,
    progress: Progress = no_progress,
) -> DiagnosisReport:
    """Diagnose why a model trains or does not.

    module_or_factory: any torch module, or a function of a seed that makes one. A module gives the spread over batches,
        a factory the spread over seeds; measures against depth need one that takes `num_layers` too, the coordinate
        check against width one that takes `width`.
    batch: the arguments of the module: a tensor, a tuple or a dictionary; or a list of such batches. A single batch is
        divided into `batches` parts along its first dimension, if all its tensors have the same.
    loss: a function of the output, or of the output and the batch, that gives a single number. Without it the output's
        own `loss` is used; without that, the mean of the output along a fixed random direction.
    seeds: the number of models that a factory builds.
    depths: the numbers of layers at which the change of the output is measured, if a factory takes `num_layers`; the
        paper goes up to 100, of two sub-layers each, which is slow.
    optimiser: the optimiser that will train it, or a function that makes one from a model. Its next update is measured
        without being made, which shows a wrong learning rate, ε or weight decay, and parameters that it leaves out.
    learning_rate: the highest learning rate, to check whether that is too high or too low; by default the optimiser's.
        Without an optimiser it is Adam's.
    warmup: the number of steps in which the learning rate rises to that. With a long one, or a small learning rate,
        a model that amplifies updates or loses gradient usually trains.
    thresholds: the thresholds of the checks; None for the defaults.
    quick: leave out the measures that take most of the time; the report names them.

    The module's weights, gradients, buffers and modes are left as they were, and so is the random state.
    """
    subject = subject_of(
        module_or_factory,
        batch,
        loss,
        batches=batches,
        depths=depths,
        name=name,
        optimiser=optimiser,
        learning_rate=learning_rate,
        warmup=warmup,
        thresholds=thresholds,
    )
    return DiagnosisReport(examine(subject, seeds=seeds, quick=quick, progress=progress))


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


def diagnose_paths(
    arguments: Sequence[str],
    extent: Extent,
    progress: Progress = no_progress,
    on_left_out: Callable[[Path], None] = lambda path: None,
) -> list[Diagnosis]:
    """Diagnose configs, run folders, model folders and files of diagnoses; `key=value` arguments override configs.

    The diagnoses of a run are stored in its folder, under diagnosis/. Among several files, JSON files that hold
    something else, such as the observations of a watch, are left out; `on_left_out` is called for each.
    """
    overrides = [each for each in arguments if "=" in each and not Path(each).exists()]
    paths = [Path(each) for each in arguments if each not in overrides]
    if not paths:
        raise UserError("say what to diagnose: a config, a run folder, or a folder with config.json and safetensors")
    found: list[Diagnosis] = []
    for path in paths:
        if not path.is_dir():
            if path.suffix == ".json":
                try:
                    found += read_diagnoses(path)
                except NoDiagnosis:
                    if len(paths) == 1:
                        raise
                    on_left_out(path)
            else:
                run = Run(read_config(path, overrides), Path("runs", path.stem))
                found.append(diagnose_config(run, extent, progress))
            continue
        if overrides:
            raise UserError(
                f"{path}: a trained model is diagnosed as it is; {overrides[0]} needs a config file; give that instead"
            )
        if is_model_folder(path):
            subject = pretrained_subject(
                path, batches=extent.batches, tokens=extent.tokens, depths=extent.output_depths
            )
            subject = replace(subject, learning_rate=extent.learning_rate, warmup=extent.warmup)
            found.append(examine(subject, seeds=extent.seeds, quick=extent.quick, progress=progress))
        else:
            _refuse_other_folder(RunFolder(path))
            found += Run(path).diagnose(extent, progress)
    if not found:
        raise UserError(f"{', '.join(map(str, paths))}: none of these files holds a diagnosis")
    return found


def _read_values(
    config: RunConfig | Mapping[str, Any] | str | Path, overrides: Sequence[str]
) -> tuple[Mapping[str, Any], str]:
    """The values that a config sets, before validation, and the start of error messages about it."""
    if isinstance(config, str | Path):
        return read_values(config, overrides, RunConfig), str(config)
    if overrides:
        raise UserError(f"{overrides[0]}: overrides are for configs in files; change the values themselves")
    return config.model_dump(exclude_unset=True) if isinstance(config, RunConfig) else config, "config"


def _refuse_other_folder(folder: RunFolder) -> None:
    if folder.status() is None or not folder.config.is_file():
        content = ", ".join(sorted(each.name for each in folder.path.iterdir())[:8]) or "nothing in it"
        raise UserError(
            f"{folder.path}: neither a run folder ({folder.config.name} and {folder.status_file.name}) nor a model "
            f"(config.json and safetensors), but {content}; give one of them, or a config file"
        )
