"""The training loop.

An update is a pure function of the weights, the optimiser's state and the step: the batch, the noise on it and dropout
all follow from (seed, step). So a run that is killed and resumed ends with the same weights as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lamina.data.ahead import ReadAhead
from lamina.data.store import Store
from lamina.diagnosis.watching.observation import read_observations, write_observations
from lamina.diagnosis.watching.watch import Watch
from lamina.files.atomic import write_file
from lamina.model.transformer import Transformer
from lamina.run_folder.folder import RunFolder, State
from lamina.tasks import build_task
from lamina.tasks.base import Inputs
from lamina.training.best import Best
from lamina.training.bf16 import make_bf16_safe
from lamina.training.callbacks.trackers import open_trackers
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.checkpoint.snapshot import Snapshot
from lamina.training.config import RunConfig
from lamina.training.display import Display
from lamina.training.distributed.parallel import share_out, whole
from lamina.training.distributed.world import World
from lamina.training.divergence import Failed, Health, is_finite, name_bad_module
from lamina.training.micro_batches import Feed, Pieces
from lamina.training.optimisers import build_optimiser, set_learning_rate
from lamina.training.schedule import build_schedule
from lamina.training.signals import Interrupts
from lamina.training.validation import Validation

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SMALLEST_SCALE = 2.0**-14  # of an fp16 loss: gradients that overflow even so are not merely large


@dataclass(frozen=True)
class Update:
    """What one update did."""

    loss: float
    nll: float
    labels: int
    gradient_norm: float
    applied: bool


class Training:
    """A run: everything is built here, in order; `run` does the rest."""

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        folder: RunFolder,
        world: World,
        display: Display,
        interrupts: Interrupts | None = None,
    ) -> None:
        self.config, self.folder, self.world, self.display = config, folder, world, display
        self.interrupts = interrupts or Interrupts(display.note)
        options = config.train
        if options.precision == "bf16" and world.device.type == "cpu":
            make_bf16_safe()
        torch.manual_seed(config.seed)
        self.task = build_task(config.task, store, config.task_options)
        self.feed = Feed(self.task, config, world)
        self.model = Transformer.build(self.task.model_options(config.chosen_model())).to(world.device)
        saved = checkpoint.find_latest(folder.checkpoints, world)
        if saved is None:
            self.task.calibrate(self.model, self.feed.first().to(world.device))
        if options.compile:
            for stack in self.model.stacks():
                for layer in stack.layers:
                    layer.compile()
        self.parallel = share_out(self.model, options.parallel, world)
        self.validation = Validation(self.task, self.model, self.parallel, world)
        self.optimiser = build_optimiser(config.optimiser, self.model)
        steps_per_epoch = len(self.feed.plan.epoch(0))
        self.schedule = build_schedule(config.schedule, total_steps=options.steps, steps_per_epoch=steps_per_epoch)
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=options.precision == "fp16")
        self.health = Health(options.steps)
        self.best = self._new_best()
        self.step = self.epoch = self.index = 0
        self._valid: tuple[int, float] | None = None  # the last validation: its step, and the nll
        if saved is not None:
            self._restore(checkpoint.read(saved, self.model))
        if world.is_first:
            folder.rewind(self.step)
        self.trackers = open_trackers(options.track, folder.path, self.step) if world.is_first else []
        every = config.diagnose.every
        self.watch = Watch(
            self.model,
            self.optimiser,
            every=every,
            step=self.step,
            history=read_observations(folder.observations, until=self.step) if every else (),
            options=config.diagnose,
            on_warning=lambda trouble: display.note(str(trouble)),
        )

    def run(self) -> tuple[State, str]:
        """Train to the end; how it ended, and why."""
        self.display.note(f"padding: none outside attention, {self.feed.padding():.1%} of the scores inside")
        updates = self.feed.updates(self.epoch, self.index)
        try:
            bar = self.display.training(self.step, self.config.train.steps)
            with bar, self.watch, ReadAhead(updates, depth=4) as pieces:
                return self._loop(pieces)
        except Failed as failure:
            return "failed", str(failure)
        finally:
            for tracker in self.trackers:
                tracker.close()
            if self.watch.history and self.world.is_first:
                self.watch.diagnosis(self.folder.path.name).write(self.folder.training_diagnosis)

    def _loop(self, updates: Iterator[Pieces]) -> tuple[State, str]:
        stopping = self._asked_to_stop()  # while it started
        while not (stopping or self._has_ended()):
            began = time.perf_counter()
            self.epoch, self.index, pieces = next(updates)
            update = self._update(pieces)
            self.step += 1
            self.index += 1
            self._log(update, time.perf_counter() - began)
            if seen := self.watch.values():
                self._note(seen)
            improved = self._measure_if_due()
            stopping = self._asked_to_stop()
            if improved or stopping or self._has_ended() or _due(self.step, self.config.train.save_every):
                self._save()
        return self._judge() if self._has_ended() else ("stopped", stopping)

    def _has_ended(self) -> bool:
        patience = self.config.train.patience
        return self._is_last() or (patience > 0 and self.best.waited >= patience)

    def _is_last(self) -> bool:
        return self.step >= self.config.train.steps

    def _asked_to_stop(self) -> str:
        """The signal that this process was sent, or another one; empty if there was none."""
        number = int(self.world.largest(self.interrupts.number))
        return signal.Signals(number).name if number else ""

    def _update(self, pieces: list[Inputs]) -> Update:
        """Gradients of the loss averaged over the labels of the whole global batch, then one step of the optimiser."""
        rate = self.schedule(self.step + 1)
        set_learning_rate(self.optimiser, rate)
        count = int(self.world.total(sum(piece.count for piece in pieces)))
        loss, nll = self._backward(pieces, count)
        self.scaler.unscale_(self.optimiser)
        limit = self.config.train.clip or float("inf")
        norm = whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)).item()
        loss, nll = self.world.total(loss) / count, self.world.total(nll) / count
        if not is_finite(loss) or not (is_finite(norm) or self._may_skip()):
            raise self._explain(pieces, count, loss, norm)
        self.scaler.step(self.optimiser)  # skips a step whose scaled gradients overflowed
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        self.health.follow(loss)
        return Update(loss, nll, count, norm, applied=is_finite(norm))

    def _may_skip(self) -> bool:
        """In fp16, gradients that overflow cost a step, and the loss is scaled down; but not for ever."""
        return self.scaler.is_enabled() and self.scaler.get_scale() > SMALLEST_SCALE

    def _backward(self, pieces: list[Inputs], count: int) -> tuple[float, float]:
        """Sums of this process's losses; their gradients are left in the parameters."""
        torch.manual_seed(_seed(self.config.seed, self.step, self.world.rank))
        precision = self.config.train.precision
        smoothed = nll = 0.0
        self.model.train()
        for number, piece in enumerate(pieces):
            inputs = piece.to(self.world.device)
            with self.parallel.accumulating(last=number == len(pieces) - 1):
                with torch.autocast(inputs.device.type, PRECISIONS[precision], enabled=precision != "fp32"):
                    losses = self.task.losses(self.parallel.network, inputs)
                # Processes average their gradients; the sum over all labels is what is wanted.
                factor = self.world.size / count if piece.count else 0.0
                torch.autograd.backward(self.scaler.scale(losses.smoothed * factor))
            if piece.count:
                smoothed += losses.smoothed.item()
                nll += losses.nll.item()
        return smoothed, nll

    def _restore(self, snapshot: Snapshot) -> None:
        snapshot.restore(self.model, self.optimiser)
        counters = snapshot.counters
        self.step, self.epoch, self.index = counters["step"], counters["epoch"], counters["index"]
        self.best = self._new_best(counters["best"])
        self.health = Health(self.config.train.steps, counters["health"])
        self._valid = counters.get("valid") and tuple(counters["valid"])
        if counters["scaler"]:  # else the precision was another one
            self.scaler.load_state_dict(counters["scaler"])
        if self.world.is_first:
            checkpoint.point(self.folder.checkpoints, latest_step=self.step, best_step=self.best.step)
        self.display.note(f"going on from step {self.step:,}")

    def _new_best(self, state: Mapping[str, Any] | None = None) -> Best:
        if self.config.train.best == "metric":
            return Best(self.task.metric, self.task.higher_is_better, state)
        return Best("nll", False, state)

    def _measure_if_due(self) -> bool:
        """Whether these weights are the best so far, and so must be kept."""
        options, last = self.config.train, self._is_last()
        by_metric = options.best == "metric"
        evaluating = _due(self.step, options.evaluate_every or (options.validate_every if by_metric else 0))
        if evaluating or (by_metric and last):
            return self._measure(self.validation.scores(self.step))
        due = last or _due(self.step, options.validate_every)
        return due and self._measure(self.validation.losses(self.step))

    def _measure(self, values: Mapping[str, float]) -> bool:
        """Take in what was measured after this step; whether it is the best so far."""
        self._valid = self.step, values["nll"]
        self._note({f"valid_{name}": value for name, value in values.items()})
        shown = self.validation.samples(self.config.train.samples)
        if shown and self.world.is_first:
            self.folder.samples.append(self.step, shown)
        self.display.validated(self.step, values)
        return self.best.name in values and self.best.follow(self.step, values[self.best.name])

    def _log(self, update: Update, seconds: float) -> None:
        values = {
            "loss": update.loss,
            "nll": update.nll,
            "rate": self.schedule(self.step),
            "gradient_norm": update.gradient_norm,
            "tokens_per_second": update.labels / seconds,
            "epoch": self.epoch,
        }
        if not update.applied:
            values["skipped"] = True
        self.display.stepped(self.step, values)
        if _due(self.step, self.config.train.log_every) or self.step == 1:
            self._note(values)

    def _note(self, values: Mapping[str, Any]) -> None:
        if self.world.is_first:
            self.folder.metrics.append(self.step, values)
            for tracker in self.trackers:
                tracker.append(self.step, values)

    def _save(self) -> None:
        counters = {
            "step": self.step,
            "epoch": self.epoch,
            "index": self.index,
            "best": self.best.state(),
            "health": self.health.state(),
            "valid": self._valid,
            "scaler": self.scaler.state_dict(),
        }
        if self.watch.history and self.world.is_first:
            write_observations(self.folder.observations, self.watch.history)
        snapshot = Snapshot.take(self.model, self.optimiser, counters)
        keep, best_step = self.config.train.keep, self.best.step
        checkpoint.save(self.folder.checkpoints, snapshot, best_step=best_step, keep=keep, world=self.world)
        if self.world.is_first:
            self.folder.set_status("running", self.step)

    def _judge(self) -> tuple[State, str]:
        """At the end: a model no better than counting words has failed, though every number was finite."""
        if self._valid is None or self._valid[0] != self.step:  # resumed, with fewer steps than were done
            self._measure(self.validation.losses(self.step))
        assert self._valid is not None
        nll, unigram = self._valid[1], self.task.unigram_nll("valid")
        if nll >= unigram:
            return "failed", f"validation loss {nll:.3f} is not below a unigram model's {unigram:.3f}"
        if self._is_last():
            return "finished", ""
        return "finished", f"no better validation {self.best.name} in {self.config.train.patience} measurements"

    def _explain(self, pieces: list[Inputs], count: int, loss: float, norm: float) -> Failed:
        """Nothing was updated. Run the step again, look where it breaks, and keep what is needed to look closer."""
        self.optimiser.zero_grad(set_to_none=True)
        where = name_bad_module(self.model, lambda: self._backward(pieces, count), self.world.gather)
        if self.world.is_first:
            examples = self.feed.plan.epoch(self.epoch)[self.index].tolist()
            report = {"step": self.step + 1, "epoch": self.epoch, "batch": self.index, "examples": examples}
            report |= {"loss": str(loss), "gradient_norm": str(norm), "first_bad": where}
            write_file(self.folder.failure, json.dumps(report, indent=1).encode())
        self._save()
        what = "loss" if not is_finite(loss) else "gradient"
        batch = f"epoch {self.epoch}, batch {self.index}"
        return Failed(f"the {what} of step {self.step + 1} ({batch}) is not finite, first in {where}")


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _seed(*numbers: int) -> int:
    """A seed of its own for every step of every process."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "little") >> 1
