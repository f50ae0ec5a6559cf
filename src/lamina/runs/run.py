"""One run, from its config to its results.

run = Run(config, "runs/b2t")            # a new run
run.train()

run = Run("runs/b2t")                    # one that was started before
run.resume()
run.load("best").generate(["Guten Morgen!"])
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch

from lamina.config import read_values
from lamina.data.prepare import prepare
from lamina.data.store import Store
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.files.progress import PATIENCE, Progress, no_progress, progress_bar
from lamina.generate.int8 import quantise
from lamina.model.transformer import Transformer
from lamina.run_folder.checkpoints import BEST
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.status import Status, describe_change
from lamina.runs.changes import (
    check_files,
    former_config,
    is_longer,
    record_start,
    record_starting_point,
    refuse_changes,
    refuse_imported,
    refuse_no_examples,
    refuse_other_data,
)
from lamina.runs.diagnose import Extent, diagnose_run
from lamina.runs.evaluation import evaluate_other_data, evaluate_split
from lamina.runs.inference import Inference
from lamina.runs.origin import Origin, check_origins, known_identity
from lamina.runs.plan import Plan, make_plan
from lamina.runs.replay import Replay, replay_step
from lamina.runs.saved_evaluation import check_new_folder, save_evaluation
from lamina.runs.summary import Evaluation, RunSummary, summarise
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Task
from lamina.training.callbacks.base import Callback
from lamina.training.callbacks.display import Display
from lamina.training.callbacks.trackers import require_trackers
from lamina.training.checkpoint import storage as checkpoints
from lamina.training.checkpoint.average import average
from lamina.training.checkpoint.snapshot import load_weights
from lamina.training.config import RunConfig
from lamina.training.distributed.world import World, join_world
from lamina.training.loop import Training
from lamina.training.signals import Interrupts


class Run(Inference):
    """A run: its folder, its config, and, once it is loaded, its task and its model."""

    def __init__(self, config_or_folder: RunConfig | str | Path, folder: str | Path | None = None) -> None:
        """`Run(config, folder)` for a new run, `Run(folder)` for one that was started before."""
        if isinstance(config_or_folder, RunConfig):
            if folder is None:
                raise UserError("a run needs a folder: Run(config, 'runs/first')")
            self.config = config_or_folder
        self.folder = RunFolder(config_or_folder if folder is None else folder)  # type: ignore[arg-type]
        self._loaded: tuple[Task, Transformer] | None = None
        self.ended: Status | None = None
        """How the run ended, once `train` has returned; all processes have the status of the first."""

    @cached_property
    def config(self) -> RunConfig:
        """The config that the run was started with, or is to be started with."""
        return self._read_stored_config()

    def _read_stored_config(self) -> RunConfig:
        self.folder.require_config()
        return read_config(self.path)

    @property
    def path(self) -> Path:
        return self.folder.path

    def train(self, *, force: bool = False, quiet: bool = False, callbacks: Sequence[Callback] = ()) -> Status:
        """Train to the end, from the start or from the latest checkpoint, and return how the run ended.

        A run whose folder has another config, or other data, is refused unless `force` is set. One that has ended is
        left as it is, unless the config asks for more steps or epochs than before.
        """
        if self.config.train.threads:
            torch.set_num_threads(self.config.train.threads)
        require_trackers(self.config.train.track)
        with join_world(self.config.train.device) as world:
            display = Display(quiet=quiet or not world.is_first)
            world.on_first(lambda: self.folder.claim() and None)
            try:
                with Interrupts(display.note) as interrupts:
                    self.ended = self.train_as_one_of(world, display, interrupts, force=force, callbacks=callbacks)
                    return self.ended
            finally:
                self.folder.release()
                if world.is_first:
                    self.folder.remove_unused()

    def train_as_one_of(
        self,
        world: World,
        display: Display,
        interrupts: Interrupts,
        *,
        force: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> Status:
        """Train as one of the processes of `world`, the first of which has claimed the folder."""
        with progress_bar(PATIENCE, quiet=display.console.quiet) as progress:
            before = world.on_first(lambda: self._check_start(force, progress))
        if before is not None:
            ended = f"{before.state} at step {before.step:,}"
            display.note(f"{self.path} has ended already: {ended}; raise train.steps to train longer")
            return before
        store = world.on_all(self.open_store)
        training = Training(self.config, store, self.folder, world, display, interrupts, callbacks)

        def record() -> None:
            record_start(self.folder, self.config, store)
            if training.step == 0:
                record_starting_point(self.folder, training.started_from)
            identity = known_identity(self.folder)
            self.folder.set_status("running", training.step, run=identity, planned_steps=training.planned_steps)
            training.origin = Origin.of(self.folder).model_dump(mode="json")

        world.on_first(record)  # only now, because a config whose model cannot be built must not be stored
        if training.started_from is not None:
            display.note(training.started_from.describe())
        for note in self.config.schedule.notes(training.planned_steps):
            display.note(note)
        try:
            state, reason = training.run()
        except BaseException as error:
            if world.is_first:
                self._record_error(error, training.step, display)
            raise
        return world.on_first(lambda: self.folder.set_status(state, training.step, reason, training.stopped_by))

    def _record_error(self, error: BaseException, step: int, display: Display) -> None:
        """Set the status of a run that ended with an error; a second error must not hide the first one."""
        what = "Ctrl-C" if isinstance(error, KeyboardInterrupt) else f"{error}" or type(error).__name__
        try:
            self.folder.set_status("stopped", step, what)
        except (UserError, OSError) as second:
            display.note(f"after another error: {second}")

    def _check_start(self, force: bool, progress: Progress) -> Status | None:
        """Refuse a changed config or changed data; returns the status of a run that has ended and needs no training."""
        before, former = self.folder.status(), former_config(self.folder)
        refuse_imported(self.folder)
        store = self.open_store(progress)  # in one process before the others: it may have to be prepared
        if former and not force:
            check_origins(self.folder, former)
            refuse_changes(self.folder, former, self.config, store)
        check_files(self.folder, self.config, config_is_known=former is not None or force)
        longer = former is not None and is_longer(self.config, former, store)
        return before if before and before.has_ended and not (longer or force) else None

    def resume(self, *, quiet: bool = False, callbacks: Sequence[Callback] = ()) -> Status:
        """Continue a run that was started before, with the config in its folder."""
        return Run(self.path).train(quiet=quiet, callbacks=callbacks)

    def load(self, checkpoint: str = BEST, *, generation: Mapping[str, Any] | None = None) -> Self:
        """Load the weights of a checkpoint, on a GPU where there is one; returns the run itself.

        checkpoint: `best`, `latest`, `average` or `step-…`.
        generation: options of `GenerateOptions` that replace those of the config, in evaluations too.
        """
        check_origins(self.folder, self._read_stored_config())
        self.folder.warn_of_changes(self.folder.latest, self.folder.best)
        options = self.config.task_options
        if generation:
            own = options.model_dump()
            changed = own | {"generation": {**own.get("generation", {}), **generation}}
            options = type(options).read(changed, where=f"task {self.config.task!r}")
        task = build_task(self.config.task, self.own_data(), options)
        model = Transformer.build(task.model_options(self.config.model))
        load_weights(model, checkpoints.load_model(self.folder.find_checkpoint(checkpoint)))
        self._loaded = task, model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
        return self

    @property
    def task(self) -> Task:
        """The task; the best checkpoint is loaded if none was."""
        return self._task_and_model()[0]

    @property
    def model(self) -> Transformer:
        """The trained model; the best checkpoint is loaded if none was."""
        return self._task_and_model()[1]

    def evaluate(
        self,
        split: str = "valid",
        *,
        data: str | Sequence[str] = (),
        save: str | Path | None = None,
        progress: Progress = no_progress,
    ) -> Evaluation:
        """The task's metrics on each set of a split.

        data: a store other than the run's own, or files, all of which are evaluated whatever `split` says; see
            `lamina.runs.evaluation`.
        save: a new folder for the texts and scores of all examples; see `lamina.runs.saved_evaluation`.
        """
        if save is not None:
            check_new_folder(save)  # before the work, not after it
        task, model = self._task_and_model()
        given = [data] if isinstance(data, str) else data
        if given:
            found = evaluate_other_data(task, model, split, given, progress, examples=save is not None)
        else:
            found = evaluate_split(task, model, split, progress, examples=save is not None)
        if save is not None:
            save_evaluation(found, save)
        return found

    def quantise(self) -> Self:
        """The same run with int8 weights, for a CPU; this one stays as it is."""
        task, model = self._task_and_model()
        quantised = copy.copy(self)
        quantised._loaded = task, quantise(model)
        return quantised

    def diagnose(self, extent: Extent | None = None, progress: Progress = no_progress) -> Iterator[Diagnosis]:
        """Diagnoses of the model at the start, at a checkpoint, and while it was watched; stored in the run folder."""
        return diagnose_run(self, extent or Extent(), progress)

    def replay(self, step: int, progress: Progress = no_progress) -> Replay:
        """Repeat one step from the checkpoint before it and look at it from inside; the folder is not changed."""
        return replay_step(self, step, progress)

    def average(self, count: int | None = None) -> list[Path]:
        """Average the last `count` checkpoints, or all that are kept; returns the paths of those averaged."""
        # The best checkpoint is kept as well; it may be much older than the last ones.
        kept = self.folder.list_checkpoints()[-self.config.train.keep_checkpoints :]
        if not kept:
            raise UserError(f"{self.path}: no checkpoint yet; continue with lamina train {self.path}")
        if len(kept) < (count or 1):
            raise UserError(
                f"{self.path}: {count} checkpoints asked for, but {len(kept)} kept; train with "
                f"train.keep_checkpoints={count}"
            )
        chosen = kept[-(count or len(kept)) :]
        checkpoints.save_model(self.folder.average, average(chosen))
        return chosen

    def summary(self) -> RunSummary:
        """State, best validation and final metrics, read from the run folder."""
        status = self.folder.status()
        if status is None:
            missing = self.folder.status_file.name
            raise UserError(
                f"{self.path}: not a run folder, or one that never started: it has no {missing}; start it with lamina "
                "train"
            )
        self.folder.warn_of_results()
        return summarise(self.folder, status, self.config)

    def plan(self, *, devices: int = 1, teraflops: float = 100.0, efficiency: float = 0.4) -> Plan:
        """Memory, operations and time that training takes; the data is opened, but no model is trained."""
        with progress_bar(PATIENCE) as progress:
            store = self.open_store(progress)
        return make_plan(self.config, store, devices=devices, teraflops=teraflops, efficiency=efficiency)

    def open_store(self, progress: Progress = no_progress) -> Store:
        """The store that the config names, or the task's embedded languages, prepared beside the run folder."""
        if self.config.data.store is not None:
            return Store.open(self.config.data.store)
        return prepare(TASKS[self.config.task].embedded_options(self.path.parent / ".embedded"), progress)

    def own_data(self) -> Store:
        """The run's own manifest and tokenizers; the store is opened when examples are read, and must be the same."""

        def find_arrays() -> Path:
            refuse_no_examples(own)
            try:
                store = self.open_store()
            except UserError as error:
                raise UserError(
                    f"{self.path}: the data that it was trained on cannot be read. {error} If the store was moved, set "
                    f"data.store in {self.folder.config} to its folder"
                ) from error
            refuse_other_data(self.folder, own.manifest, store)
            return store.folder

        own = self.folder.data_copy(find_arrays)
        return own

    def _task_and_model(self) -> tuple[Task, Transformer]:
        if self._loaded is None:
            self.load()
        assert self._loaded is not None
        return self._loaded


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The config of a TOML file or of a run folder, with `key=value` overrides."""
    path = Path(path)
    if not path.is_dir():
        return RunConfig.read(read_values(path, overrides, RunConfig), where=str(path))
    folder = RunFolder(path)
    folder.require_config()
    try:
        config = RunConfig.read_stored(folder.config, overrides)
    except UserError as error:
        raise UserError(f"{error}{folder.other_version}") from error
    if reason := folder.changed_files(folder.config).get(folder.config):
        warnings.warn(f"{describe_change(folder.config, reason)}; lamina train {path} accepts it", stacklevel=3)
    return config
