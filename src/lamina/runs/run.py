"""A trained run, ready to be used: `run = lamina.load("runs/first")`, then `run.generate(["Guten Morgen!"])`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from lamina.errors import UserError
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import Scored
from lamina.model.transformer import Transformer
from lamina.runs import runs
from lamina.runs.summary import Evaluation
from lamina.tasks import TASKS
from lamina.tasks.base import Task
from lamina.tasks.generating import GeneratingTask, Output, Warn


class Run:
    """The task and the model of a run folder."""

    def __init__(self, path: Path, task: Task, model: Transformer) -> None:
        self.path, self.task, self.model = path, task, model

    def generate(
        self,
        texts: Iterable[str],
        *,
        to: str | None = None,
        prefixes: str | Iterable[str] = "",
        **options: Any,
    ) -> list[str]:
        """The best output for every text; options are those of `GenerateOptions`, such as `beam=4`.

        `to` is the language to translate into, where the model knows several. `prefixes` is what outputs have to
        start with: one text for all of them, or one for each.
        """
        found = self.stream(texts, to=to, prefixes=prefixes, **options)
        return [outputs[0].text if outputs else "" for outputs in found]

    def stream(
        self,
        texts: Iterable[str],
        *,
        to: str | None = None,
        prefixes: str | Iterable[str] = "",
        window: int | None = None,
        warn: Warn = warnings.warn,
        **options: Any,
    ) -> Iterator[list[Output]]:
        """All outputs for every text with their scores, each as soon as it and those before it are ready.

        `window` texts are read ahead at most; without it, all are. `warn` hears of those that are too long.
        """
        _refuse_one(texts)
        task, chosen = self._generating(options)
        return task.generate_text(self.model, texts, chosen, to=to, prefixes=prefixes, window=window, warn=warn)

    def score(
        self,
        texts: Iterable[str],
        targets: Iterable[str],
        *,
        to: str | None = None,
        window: int | None = None,
        warn: Warn = warnings.warn,
    ) -> Iterator[Scored]:
        """How likely the model finds each target."""
        _refuse_one(texts)
        _refuse_one(targets)
        task, chosen = self._generating({})
        return task.score_text(self.model, texts, targets, chosen, to=to, window=window, warn=warn)

    def evaluate(self, split: str = "valid") -> Evaluation:
        """The task's metrics on each set of a split."""
        return runs.evaluate_model(self.task, self.model, split)

    def quantise(self) -> Run:
        """The same run with int8 weights, for a CPU."""
        from lamina.generate.int8 import quantise

        return Run(self.path, self.task, quantise(self.model))

    def _generating(self, changes: dict[str, Any]) -> tuple[GeneratingTask, GenerateOptions]:
        if not isinstance(self.task, GeneratingTask):
            able = ", ".join(task.name for task in TASKS.values() if issubclass(task, GeneratingTask))
            raise UserError(f"{self.path}: task {self.task.name!r} generates no text; these do: {able}")
        given = self.task.options.generation.model_dump() | changes
        return self.task, GenerateOptions.read(given, where="generation")


def _refuse_one(texts: Iterable[str]) -> None:
    if isinstance(texts, str):
        raise UserError(f"give a list of texts, such as [{texts[:40]!r}]: a text alone would be read by letters")


def load(path: str | Path, checkpoint: str = "best", *, generation: Mapping[str, Any] | None = None) -> Run:
    """A trained run: `best`, `latest`, `average` or `step-…`, on a GPU where there is one.

    `generation` changes how the run generates text, in evaluations too: options of `GenerateOptions`.
    """
    task, model = runs.load(path, checkpoint, generation)
    return Run(Path(path), task, model.to("cuda" if torch.cuda.is_available() else "cpu"))
