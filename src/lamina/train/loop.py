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
from types import FrameType
from typing import Any

import torch

from lamina.data.ahead import ReadAhead
from lamina.data.atomic import write_file
from lamina.data.store import Store
from lamina.diagnose.watch import Watch
from lamina.model.transformer import Transformer
from lamina.tasks import build_task
from lamina.tasks.base import Inputs
from lamina.train import checkpoint
from lamina.train.best import Best
from lamina.train.config import RunConfig
from lamina.train.display import Display
from lamina.train.feed import Feed, Pieces
from lamina.train.health import Failed, Health, is_finite, name_bad_module
from lamina.train.optimiser import build_optimiser, set_learning_rate
from lamina.train.parallel import share_out, whole
from lamina.train.run_folder import RunFolder, State
from lamina.train.schedule import build_schedule
from lamina.train.snapshot import Snapshot
from lamina.train.trackers import open_trackers
from lamina.train.world import World

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SAVE_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


@dataclass(frozen=True)
class Update:
    """What one update did."""

    loss: float
    likelihood: float
    labels: int
    gradient_norm: float
    applied: bool


class Training:
    """A run: everything is built here, in order; `run` does the rest."""

    def __init__(self, config: RunConfig, store: Store, folder: RunFolder, world: World, display: Display) -> None:
        self.config, self.folder, self.world, self.display = config, folder, world, display
        options = config.train
        torch.manual_seed(config.seed)
        self.task = build_task(config.task, store, config.task_options)
        self.feed = Feed(self.task, config, world)
        self.model = Transformer.build(self.task.model_options(config.chosen_model())).to(world.device)
        saved = checkpoint.find_latest(folder.checkpoints, world)
        if saved is None:
            _, _, first = next(self.feed.updates())
            self.task.calibrate(self.model, first[0].to(world.device))
        if options.compile:
            for stack in self.model.stacks():
                for layer in stack.layers:
                    layer.compile()
        self.parallel = share_out(self.model, options.parallel, world)
        self.optimiser = build_optimiser(config.optimiser, self.model)
        steps_per_epoch = len(self.feed.plan.epoch(0))
        self.schedule = build_schedule(config.schedule, total_steps=options.steps, steps_per_epoch=steps_per_epoch)
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=options.precision == "fp16")
        self.health = Health(options.steps)
        self.best = self._new_best()
        self.step = self.epoch = self.index = 0
        self.valid_nll: float | None = None  # of the last validation
        self.stop_signal: int | None = None
        self.trackers = open_trackers(options.track, folder.path) if world.is_first else []
        self._scores: tuple[int, Mapping[str, float]] | None = None  # the step they were taken at
        if saved is not None:
            self._restore(checkpoint.read(saved, self.model))
        self.watch = Watch(
            self.model,
            self.optimiser,
            every=config.diagnose.every,
            step=self.step,
            options=config.diagnose,
            on_warning=lambda departure: display.note(str(departure)),
        )

    def run(self) -> tuple[State, str]:
        """Train to the end; how it ended, and why."""
        self.display.note(f"padding: none outside attention, {self.feed.padding():.1%} of the scores inside")
        handlers = {each: signal.signal(each, self._remember_signal) for each in SAVE_SIGNALS}
        updates = self.feed.updates(self.epoch, self.index)
        try:
            bar = self.display.training(self.step, self.config.train.steps)
            with bar, self.watch, ReadAhead(updates, depth=4) as pieces:
                return self._loop(pieces)
        except Failed as failure:
            return "failed", str(failure)
        finally:
            for each, handler in handlers.items():
                signal.signal(each, handler)
            for tracker in self.trackers:
                tracker.close()
            if self.watch.history and self.world.is_first:
                self.watch.diagnosis(self.folder.path.name).write(self.folder.diagnosis / "training.json")

    def _loop(self, updates: Iterator[Pieces]) -> tuple[State, str]:
        options = self.config.train
        while self.step < options.steps:
            began = time.perf_counter()
            self.epoch, self.index, pieces = next(updates)
            update = self._update(pieces)
            self.step += 1
            self.index += 1
            self._log(update, time.perf_counter() - began)
            if seen := self.watch.values():
                self._note(seen)
            last = self.step == options.steps
            improved = self._measure_if_due(last)
            stopping = self.world.agree(self.stop_signal is not None)
            bored = bool(options.patience) and self.best.waited >= options.patience
            if last or improved or stopping or bored or _due(self.step, options.save_every):
                self._save()
            if bored and not last:
                return self._judge(f"no better validation {self.best.name} in {options.patience} measurements")
            if stopping and not last:
                return "stopped", f"signal {self.stop_signal}"
        return self._judge("")

    def _update(self, pieces: list[Inputs]) -> Update:
        """Gradients of the loss averaged over the labels of the whole global batch, then one step of the optimiser."""
        rate = self.schedule(self.step + 1)
        set_learning_rate(self.optimiser, rate)
        count = int(self.world.total(sum(piece.count for piece in pieces)))
        loss, likelihood = self._backward(pieces, count)
        self.scaler.unscale_(self.optimiser)
        limit = self.config.train.clip or float("inf")
        norm = whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)).item()
        loss, likelihood = self.world.total(loss) / count, self.world.total(likelihood) / count
        if not is_finite(loss) or (not is_finite(norm) and not self.scaler.is_enabled()):
            raise self._explain(pieces, count, loss, norm)
        self.scaler.step(self.optimiser)  # skips a step whose scaled gradients overflowed
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        self.health.follow(loss)
        return Update(loss, likelihood, count, norm, applied=is_finite(norm))

    def _backward(self, pieces: list[Inputs], count: int) -> tuple[float, float]:
        """Sums of this process's losses; their gradients are left in the parameters."""
        torch.manual_seed(_seed(self.config.seed, self.step, self.world.rank))
        precision = self.config.train.precision
        smoothed = likelihood = 0.0
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
                likelihood += losses.likelihood.item()
        return smoothed, likelihood

    def _restore(self, snapshot: Snapshot) -> None:
        snapshot.restore(self.model, self.optimiser)
        counters = snapshot.counters
        self.step, self.epoch, self.index = counters["step"], counters["epoch"], counters["index"]
        self.best = self._new_best(counters["best"])
        self.health = Health(self.config.train.steps, counters["health"])
        self.scaler.load_state_dict(counters["scaler"])
        if self.world.is_first:
            self.folder.metrics.rewind(self.step)
            checkpoint.point(self.folder.checkpoints, latest_step=self.step, best_step=self.best.step)
        self.display.note(f"going on from step {self.step:,}")

    def _new_best(self, state: Mapping[str, Any] | None = None) -> Best:
        if self.config.train.best == "metric":
            return Best(self.task.metric, self.task.higher_is_better, state)
        return Best("nll", False, state)

    def _measure_if_due(self, last: bool) -> bool:
        """Whether these weights are the best so far, and so must be kept."""
        options = self.config.train
        by_metric = options.best == "metric"
        evaluating = _due(self.step, options.evaluate_every or (options.validate_every if by_metric else 0))
        if evaluating or (by_metric and last):
            return self._measure(self.scores())
        return (last or _due(self.step, options.validate_every)) and self._measure(self._losses())

    def _measure(self, values: Mapping[str, float]) -> bool:
        """Take in what was measured after this step; whether it is the best so far."""
        if not is_finite(values["nll"]):
            raise Failed(f"the validation loss after step {self.step} is not finite")
        self.valid_nll = values["nll"]
        self._note({f"valid_{name}": value for name, value in values.items()})
        self._write_samples()
        self.display.validated(self.step, values)
        return self.best.name in values and self.best.follow(self.step, values[self.best.name])

    def _losses(self) -> dict[str, float]:
        """The validation loss. Processes compute it together, for each needs the others' slices of the model."""
        losses = self.task.total_losses(self.model, "valid")
        values = {"loss": losses.smoothed.item() / losses.count, "nll": losses.likelihood.item() / losses.count}
        return {name: self.world.from_first(value) for name, value in values.items()}

    def scores(self) -> Mapping[str, float]:
        """The task's metrics on the validation split, the losses among them; all processes measure."""
        if self._scores is None or self._scores[0] != self.step:
            with self.parallel.gathered():
                values = self.task.evaluate(self.model, "valid")
            self._scores = self.step, {name: self.world.from_first(value) for name, value in values.items()}
        return self._scores[1]

    def _write_samples(self) -> None:
        with self.parallel.gathered():
            shown = self.task.samples(self.model, "valid", self.config.train.samples)
        if shown and self.world.is_first:
            self.folder.add_samples(f"step {self.step}\n" + "".join(f"  {line}\n" for line in shown))

    def _log(self, update: Update, seconds: float) -> None:
        values = {
            "loss": update.loss,
            "nll": update.likelihood,
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
            "scaler": self.scaler.state_dict(),
        }
        snapshot = Snapshot.take(self.model, self.optimiser, counters)
        keep, best_step = self.config.train.keep, self.best.step
        checkpoint.save(self.folder.checkpoints, snapshot, best_step=best_step, keep=keep, world=self.world)
        if self.world.is_first:
            self.folder.set_status("running", self.step)

    def _judge(self, why_it_ended: str) -> tuple[State, str]:
        """At the end: a model no better than counting words has failed, though every number was finite."""
        unigram = self.task.unigram_likelihood("valid")
        if self.valid_nll is None:  # resumed after the last step: there was nothing left to do but this
            self._measure(self._losses())
        assert self.valid_nll is not None
        if self.valid_nll >= unigram:
            return "failed", f"validation loss {self.valid_nll:.3f} is not below a unigram model's {unigram:.3f}"
        return "finished", why_it_ended

    def _explain(self, pieces: list[Inputs], count: int, loss: float, norm: float) -> Failed:
        """Nothing was updated. Run the step again, look where it breaks, and keep what is needed to look closer."""
        self.optimiser.zero_grad(set_to_none=True)
        where = name_bad_module(self.model, lambda: self._backward(pieces, count), self.world.gather)
        if self.world.is_first:
            examples = self.feed.plan.epoch(self.epoch)[self.index].tolist()
            report = {"step": self.step + 1, "epoch": self.epoch, "batch": self.index, "examples": examples}
            report |= {"loss": str(loss), "gradient_norm": str(norm), "first_bad": where}
            write_file(self.folder.diagnosis / "failure.json", json.dumps(report, indent=1).encode())
        self._save()
        what = "loss" if not is_finite(loss) else "gradient"
        batch = f"epoch {self.epoch}, batch {self.index}"
        return Failed(f"the {what} of step {self.step + 1} ({batch}) is not finite, first in {where}")

    def _remember_signal(self, number: int, frame: FrameType | None) -> None:
        self.stop_signal = number


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


def _seed(*numbers: int) -> int:
    """A seed of its own for every step of every process."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "little") >> 1
