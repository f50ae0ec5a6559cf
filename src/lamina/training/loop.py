"""The training loop.

An update is a pure function of the weights, the optimiser's state and the step: the batch, its noise and dropout follow
from (seed, step). So a run that is killed and resumed ends with the same weights as one that was not.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from lamina.data.batches import ReadAhead
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.model.transformer import Transformer
from lamina.run_folder.checkpoints import ORIGIN
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.metrics import FINAL, VALID, prefixed
from lamina.run_folder.starting_point import StartingPoint
from lamina.run_folder.status import RunState
from lamina.tasks import build_task
from lamina.tasks.base import Inputs
from lamina.training.callbacks import built_in_callbacks
from lamina.training.callbacks.base import Callback
from lamina.training.callbacks.display import Display
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.checkpoint.shards import check_shared
from lamina.training.checkpoint.snapshot import Snapshot
from lamina.training.config import RunConfig
from lamina.training.distributed.clipping import clip_gradients
from lamina.training.distributed.failures import SharedFailures
from lamina.training.distributed.parallel import parallelise
from lamina.training.distributed.world import World
from lamina.training.divergence import Diverged, LossMonitor, explain_divergence, is_finite, judge_end
from lamina.training.length import Position, planned_steps
from lamina.training.micro_batches import BatchShare, TrainingBatches
from lamina.training.optimisers import build_optimiser, set_learning_rate
from lamina.training.precision import Precision
from lamina.training.schedule import build_schedule
from lamina.training.signals import Interrupts
from lamina.training.start_from import start_model
from lamina.training.update import Update
from lamina.training.validation import Validation, check_splits


class Training:
    """A run in training: everything is built by the constructor, in order; `run` trains."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        folder: RunFolder,
        world: World,
        display: Display,
        interrupts: Interrupts | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config, self.folder, self.world, self.display = config, folder, world, display
        self.interrupts = interrupts or Interrupts(display.note)
        options = config.train
        torch.manual_seed(config.seed)
        self.precision = Precision(options.precision, world.device, options.loss_scale)
        self.task = build_task(config.task, store, config.task_options)
        check_splits(self.task)
        self.batches = TrainingBatches(self.task, config, world)
        self.model = Transformer.build(self.task.model_options(config.model)).to(world.device)
        if options.parallel == "fsdp" and world.size > 1:
            check_shared(folder.checkpoints, world)
        saved = checkpoint.find_latest(folder.checkpoints, world)
        self.started_from: StartingPoint | None = None
        """The weights that a new run was started from; None for a resumed one, which does not read them again."""
        if saved is None:
            self.task.calibrate(self.model, self.batches.first().to(world.device))
            self.started_from = world.on_all(lambda: start_model(config, store, self.model))
        if options.compile:
            compile_layers(self.model)
        self.parallel = parallelise(self.model, options.parallel, world)
        self.validation = Validation(options, self.task, self.model, self.parallel, world)
        self.optimiser = build_optimiser(config.optimiser, self.model)
        self.parameters = list(self.model.parameters())
        self.planned_steps = planned_steps(config, self.batches.plan)
        self.batches_in_epoch = len(self.batches.plan.epoch(0))
        self.schedule = build_schedule(
            config.schedule, total_steps=self.planned_steps, steps_per_epoch=self.batches_in_epoch
        )
        self.loss_monitor = LossMonitor(self.planned_steps)
        self.callbacks = [display, *built_in_callbacks(config), *callbacks]
        self.step = self.epoch = self.index = 0
        self.stopped_by = ""
        """The signal that stopped the run."""
        self.failures = SharedFailures(world)
        self.origin: Mapping[str, Any] | None = None
        """The identity and config of the run, which are written with every checkpoint."""
        if saved is not None:
            self._restore(world.on_all(lambda: checkpoint.read(saved, self.model)))
        world.on_first(self._rewind_folder)

    def run(self) -> tuple[RunState, str]:
        """Train to the end; returns the state in which the run ended, and the reason if there is one."""
        with ExitStack() as ending:
            ending.push(self._end_together)
            for callback in self.callbacks:
                ending.push(self._end_of(callback))
                self.failures.attempt(partial(callback.on_start, self))
            shares = ending.enter_context(ReadAhead(self.batches.shares(self.epoch, self.index), depth=4))
            try:
                # A signal may have arrived while the run was built.
                self.stopped_by = self.failures.agree(self.interrupts.number, self.step)
                while not (self.stopped_by or self.has_ended()):
                    began = time.perf_counter()
                    update = self.update(next(shares))
                    self._report(update, time.perf_counter() - began)
                    improved = self._validate_if_due()
                    self.stopped_by = self.failures.agree(self.interrupts.number, self.step)
                    options = self.config.train
                    due = self.position.is_due(options.save_every, options.save_every_epochs)
                    if improved or self.stopped_by or self.has_ended() or due:
                        self.save()
                return self._finish() if self.has_ended() else ("stopped", self.stopped_by)
            except Diverged as divergence:
                return "failed", str(divergence)

    def _end_together(self, kind: Any, first: BaseException | None, trace: Any) -> None:
        """After all callbacks have ended, raise an error of any process in all, unless one is being raised."""
        if first is None:
            self.failures.agree(0, self.step)

    def _end_of(self, callback: Callback) -> Callable[[Any, BaseException | None, Any], None]:
        """End a callback; if another error is being raised, an error of the callback is only printed."""

        def end(kind: Any, first: BaseException | None, trace: Any) -> None:
            try:
                if first is None:
                    self.failures.attempt(partial(callback.on_end, self))
                else:
                    callback.on_end(self)
            except (UserError, OSError) as error:
                if first is None:
                    raise
                self.display.note(f"after another error: {error}")

        return end

    def update(self, share: BatchShare) -> Update:
        """One step of the optimiser on the gradient of the loss, averaged over the labels of the global batch."""
        self.epoch, self.index, micro_batches, self.batches_in_epoch = share
        set_learning_rate(self.optimiser, self.schedule(self.step + 1))
        labels = int(self.world.total(sum(each.count for each in micro_batches)))
        loss, nll = self.backward(micro_batches, labels)
        self.precision.unscale(self.optimiser)
        limit = self.config.train.clip_norm or float("inf")
        norm = clip_gradients(self.parameters, limit)
        loss, nll = self.world.total(loss) / labels, self.world.total(nll) / labels
        if not is_finite(loss) or not (is_finite(norm) or self.precision.may_skip()):
            raise explain_divergence(self, micro_batches, labels, loss, norm)
        for callback in self.callbacks:
            self.failures.attempt(partial(callback.on_gradients, self, loss, norm))
        self.precision.step(self.optimiser)
        self.optimiser.zero_grad(set_to_none=True)
        self.loss_monitor.follow(loss)
        self.step += 1
        self.index += 1
        return Update(loss, nll, labels, norm, applied=is_finite(norm))

    def backward(self, micro_batches: Sequence[Inputs], labels: int) -> tuple[float, float]:
        """Compute the gradients; returns the sums of this process's losses, with and without label smoothing."""
        torch.manual_seed(seed_of(self.config.seed, self.step, self.world.rank))
        smoothed = nll = 0.0
        self.model.train()
        for number, micro_batch in enumerate(micro_batches):
            inputs = micro_batch.to(self.world.device)
            with self.parallel.accumulating(last=number == len(micro_batches) - 1):
                with self.precision.autocast():
                    losses = self.task.losses(self.parallel.network, inputs)
                # Processes average their gradients; the factor makes that the mean over all labels.
                factor = self.world.size / labels if micro_batch.count else 0.0
                self.precision.backward(losses.smoothed * factor)
            if micro_batch.count:
                smoothed += losses.smoothed.item()
                nll += losses.nll.item()
        return smoothed, nll

    @property
    def position(self) -> Position:
        """The number of steps done, and the position in the present epoch."""
        return Position(self.step, self.epoch, self.index, self.batches_in_epoch)

    def has_ended(self) -> bool:
        """Whether all steps or epochs are done, or patience is exhausted."""
        options = self.config.train
        is_impatient = options.patience > 0 and self.validation.best.not_better >= options.patience
        return self.position.has_reached(options) or is_impatient

    def log(self, values: Mapping[str, Any]) -> None:
        """Write a line of metrics.jsonl."""
        if self.world.is_first:
            self.failures.attempt(partial(self.folder.metrics.append, self.step, values))
        for callback in self.callbacks:
            self.failures.attempt(partial(callback.on_log, self, values))

    def save(self) -> None:
        """Write a checkpoint."""
        for callback in self.callbacks:
            self.failures.attempt(partial(callback.on_checkpoint, self))
        counters = {
            "step": self.step,
            "epoch": self.epoch,
            "index": self.index,
            "health": self.loss_monitor.state(),
            "scaler": self.precision.state(),
            **self.validation.state(),
        }
        if self.origin is not None:
            counters[ORIGIN] = self.origin
        snapshot = Snapshot.take(self.model, self.optimiser, counters)
        keep, best_step = self.config.train.keep_checkpoints, self.validation.best.step
        checkpoint.save(self.folder.checkpoints, snapshot, best_step=best_step, keep=keep, world=self.world)
        self.world.on_first(lambda: self.folder.set_status("running", self.step))

    def _restore(self, snapshot: Snapshot) -> None:
        try:
            self._restore_counters(snapshot.counters)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UserError(
                f"{self.folder.checkpoints}: the counters of the checkpoint cannot be understood ({error}); move it "
                "away to resume from the one before"
            ) from error
        snapshot.restore(self.model, self.optimiser)
        self.display.note(f"resuming from step {self.step:,}")

    def _rewind_folder(self) -> None:
        """Remove results of later steps, and set the links, which a killed process may have left behind."""
        self.folder.unseal(self.step)
        if self.step:
            checkpoint.point(self.folder.checkpoints, latest_step=self.step, best_step=self.validation.best.step)
        self.folder.rewind(self.step)

    def _restore_counters(self, counters: Mapping[str, Any]) -> None:
        for name in ("step", "epoch", "index"):
            value, most = counters[name], counters["step"]
            if type(value) is not int or not 0 <= value <= most < 2**63:
                raise ValueError(f"{name} is {value!r}")
        self.step, self.epoch, self.index = counters["step"], counters["epoch"], counters["index"]
        self.loss_monitor = LossMonitor(self.planned_steps, counters["health"])
        for note in self.loss_monitor.notes():
            self.display.note(note)
        self.precision.restore(counters["scaler"])
        self.validation.restore(counters)
        self.batches_in_epoch = len(self.batches.plan.epoch(self.epoch))
        if self.index > self.batches_in_epoch:
            raise ValueError(f"index is {self.index}")

    def _report(self, update: Update, seconds: float) -> None:
        values = {
            "loss": update.loss,
            "nll": update.nll,
            "learning_rate": self.schedule(self.step),
            "gradient_norm": update.gradient_norm,
            "tokens_per_second": update.labels / seconds,
            "epoch": self.position.epochs,
        }
        if not update.applied:
            values["skipped"] = True
        if self.position.is_due(self.config.train.log_every) or self.step == 1:
            self.log(values)
        for callback in self.callbacks:
            self.failures.attempt(partial(callback.on_step, self, values))

    def _validate_if_due(self) -> bool:
        """Whether these weights are the best so far, and so must be saved."""
        values = self.validation.measure_if_due(self.position)
        return values is not None and self._validated(values)

    def _validated(self, values: Mapping[str, float]) -> bool:
        self.validation.last = self.step, values["nll"]
        self.log({"epoch": self.position.epochs, **prefixed(VALID, values)})
        for callback in self.callbacks:
            self.failures.attempt(partial(callback.on_validation, self, values))
        best = self.validation.best
        return best.metric in values and best.update(self.step, values[best.metric])

    def _finish(self) -> tuple[RunState, str]:
        """Measure the task's metrics, unless the task calls the model a failure; return how the run ended."""
        last = self.validation.last
        if last is None or last[0] != self.step:  # resumed, with fewer steps than were done
            self._validated(self.validation.losses(self.step))
        assert self.validation.last is not None
        failure = self.task.describe_failure(
            "valid", self.validation.last[1], lambda: self.validation.scores(self.step)
        )
        state, reason = judge_end(failure, self.step, self.config.schedule.warmup)
        scores = (self.validation.scores if state == "finished" else self.validation.measured)(self.step)
        if scores:
            self.log(prefixed(FINAL, scores))
        reasons = [reason] if reason else []
        if not self.position.has_reached(self.config.train):
            patience, metric = self.config.train.patience, self.validation.best.metric
            reasons.insert(0, f"no better validation {metric} in {patience} measurements")
        return state, "; ".join(reasons)


def compile_layers(model: Transformer) -> None:
    for stack in model.stacks():
        for layer in stack.layers:
            layer.compile()


def seed_of(*numbers: int) -> int:
    """The seed of dropout at a step of a process."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "little") >> 1
