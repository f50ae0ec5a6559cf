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
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lamina.data.ahead import ReadAhead
from lamina.data.atomic import write_file
from lamina.data.batches import Batches
from lamina.data.store import Store
from lamina.model.transformer import Transformer
from lamina.tasks import build_task
from lamina.tasks.base import Inputs
from lamina.train import checkpoint
from lamina.train.config import RunConfig
from lamina.train.display import Display
from lamina.train.health import Failed, Health, is_finite, name_bad_module
from lamina.train.optimiser import build_optimiser, set_learning_rate
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
        self.model = Transformer.build(self.task.model_options(config.chosen_model())).to(world.device)
        self.optimiser = build_optimiser(config.optimiser, self.model)
        self.pieces = [
            self.task.batches(
                "train", config.data, seed=config.seed, rank=rank, processes=world.size * options.accumulate
            )
            for rank in range(world.rank * options.accumulate, (world.rank + 1) * options.accumulate)
        ]
        steps_per_epoch = len(self.pieces[0].plan.epoch(0))
        self.schedule = build_schedule(config.schedule, total_steps=options.steps, steps_per_epoch=steps_per_epoch)
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=options.precision == "fp16")
        self.health = Health(options.steps)
        self.step = self.epoch = self.index = 0
        self.best: dict[str, Any] | None = None
        self.valid_nll: float | None = None  # of the last validation
        self.waited = 0  # validations without a better loss
        self.stop_signal: int | None = None
        self.network: nn.Module = self.model
        self.trackers = open_trackers(options.track, folder.path) if world.is_first else []

    def run(self) -> tuple[State, str]:
        """Train to the end; how it ended, and why."""
        self._resume_or_calibrate()
        self._report_padding()
        self._wrap()
        handlers = {each: signal.signal(each, self._remember_signal) for each in SAVE_SIGNALS}
        try:
            with self.display.training(self.step, self.config.train.steps), ReadAhead(self._read(), depth=4) as batches:
                return self._loop(batches)
        except Failed as failure:
            return "failed", str(failure)
        finally:
            for each, handler in handlers.items():
                signal.signal(each, handler)
            for tracker in self.trackers:
                tracker.close()

    def _loop(self, batches: Iterator[tuple[int, int, list[Inputs]]]) -> tuple[State, str]:
        options = self.config.train
        while self.step < options.steps:
            began = time.perf_counter()
            self.epoch, self.index, pieces = next(batches)
            update = self._update(pieces)
            self.step += 1
            self.index += 1
            self._log(update, time.perf_counter() - began)
            last = self.step == options.steps
            improved = (last or _due(self.step, options.validate_every)) and self._validate()
            stopping = self.world.agree(self.stop_signal is not None)
            bored = bool(options.patience) and self.waited >= options.patience
            if last or improved or stopping or bored or _due(self.step, options.save_every):
                self._save()
            if bored and not last:
                return self._judge(f"no better validation loss in {options.patience} validations")
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
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit).item()
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
        self.network.train()
        for number, piece in enumerate(pieces):
            inputs = piece.to(self.world.device)
            with self._synchronise(number == len(pieces) - 1):
                with torch.autocast(inputs.device.type, PRECISIONS[precision], enabled=precision != "fp32"):
                    losses = self.task.losses(self.network, inputs)
                # Processes average their gradients; the sum over all labels is what is wanted.
                factor = self.world.size / count if piece.count else 0.0
                torch.autograd.backward(self.scaler.scale(losses.smoothed * factor))
            if piece.count:
                smoothed += losses.smoothed.item()
                likelihood += losses.likelihood.item()
        return smoothed, likelihood

    def _synchronise(self, last: bool) -> Any:
        """Exchange gradients at the end of an accumulation only."""
        alone = not isinstance(self.network, DistributedDataParallel)
        return nullcontext() if last or alone else self.network.no_sync()  # type: ignore[operator]

    def _read(self) -> Iterator[tuple[int, int, list[Inputs]]]:
        """The pieces of this process, update by update, from where the run stands. Runs in a thread."""
        epoch, index = self.epoch, self.index
        while True:
            length = len(self.pieces[0].plan.epoch(epoch))
            while index < length:
                shares = [batches.batch(epoch, index) for batches in self.pieces]
                pieces = [self.task.inputs(share, seed=self.config.seed) for share in shares if len(share)]
                yield epoch, index, pieces or [self._borrowed(epoch, index)]
                index += 1
            epoch, index = epoch + 1, 0

    def _borrowed(self, epoch: int, index: int) -> Inputs:
        """For a process that a small batch leaves with nothing: it computes along, and none of it counts."""
        whole = Batches(self.pieces[0].examples, self.pieces[0].plan)
        return replace(self.task.inputs(whole.batch(epoch, index)), count=0)

    def _resume_or_calibrate(self) -> None:
        snapshot = checkpoint.load_latest(self.folder.checkpoints)
        if snapshot is None:
            _, _, first = next(self._read())
            self.task.calibrate(self.model, first[0].to(self.world.device))
            return
        snapshot.restore(self.model, self.optimiser)
        counters = snapshot.counters
        self.step, self.epoch, self.index = counters["step"], counters["epoch"], counters["index"]
        self.best, self.waited = counters["best"], counters["waited"]
        self.health = Health(self.config.train.steps, counters["health"])
        self.scaler.load_state_dict(counters["scaler"])
        if self.world.is_first:
            self.folder.metrics.rewind(self.step)
            checkpoint.point(self.folder.checkpoints, latest_step=self.step, best_step=self._best_step())
        self.display.note(f"going on from step {self.step:,}")

    def _report_padding(self) -> None:
        """Attention scores are the only place with padding: say how much, over some batches."""
        cells = [piece.attention_cells() for _, _, pieces in islice(self._read(), 20) for piece in pieces]
        computed, real = (sum(side) for side in zip(*cells, strict=True))
        self.display.note(f"padding: none outside attention, {1 - real / computed:.1%} of the scores inside")

    def _wrap(self) -> None:
        if self.config.train.compile:
            for stack in self.model.stacks():
                for layer in stack.layers:
                    layer.compile()
        if self.world.size > 1:
            self.network = DistributedDataParallel(self.model)

    def _validate(self) -> bool:
        """Measure the validation loss; whether it is the best so far, so that its weights are kept."""
        losses = self.task.total_losses(self.model, "valid")
        values = {
            "valid_loss": losses.smoothed.item() / losses.count,
            "valid_nll": losses.likelihood.item() / losses.count,
        }
        if not is_finite(values["valid_nll"]):
            raise Failed(f"the validation loss after step {self.step} is not finite")
        self.valid_nll = values["valid_nll"]
        improved = self.best is None or values["valid_nll"] < self.best["valid_nll"]
        if improved:
            self.best = {"step": self.step, **values}
        self.waited = 0 if improved else self.waited + 1
        self._note(values)
        if self.world.is_first:
            self._write_samples()
        self.display.validated(self.step, values)
        return improved

    def _write_samples(self) -> None:
        shown = self.task.samples(self.model, "valid", self.config.train.samples)
        if shown:
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
        if self.world.is_first:
            counters = {
                "step": self.step,
                "epoch": self.epoch,
                "index": self.index,
                "best": self.best,
                "waited": self.waited,
                "health": self.health.state(),
                "scaler": self.scaler.state_dict(),
            }
            snapshot = Snapshot.take(self.model, self.optimiser, counters)
            checkpoint.save(self.folder.checkpoints, snapshot, best_step=self._best_step(), keep=self.config.train.keep)
            self.folder.set_status("running", self.step)
        self.world.wait()

    def _best_step(self) -> int | None:
        return None if self.best is None else int(self.best["step"])

    def _judge(self, why_it_ended: str) -> tuple[State, str]:
        """At the end: a model no better than counting words has failed, though every number was finite."""
        unigram = self.task.unigram_likelihood("valid")
        if self.valid_nll is None:  # resumed after the last step: there was nothing left to do but this
            self._validate()
        assert self.valid_nll is not None
        if self.valid_nll >= unigram:
            return "failed", f"validation loss {self.valid_nll:.3f} is not below a unigram model's {unigram:.3f}"
        return "finished", why_it_ended

    def _explain(self, pieces: list[Inputs], count: int, loss: float, norm: float) -> Failed:
        """Nothing was updated. Run the step again, look where it breaks, and keep what is needed to look closer."""
        self.optimiser.zero_grad(set_to_none=True)
        where = name_bad_module(self.model, lambda: self._backward(pieces, count))
        if self.world.is_first:
            examples = self.pieces[0].plan.epoch(self.epoch)[self.index].tolist()
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
