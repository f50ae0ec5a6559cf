"""Inference: text from a trained model, its scores of given text, and its labels."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lamina.errors import UserError
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import Scored
from lamina.model.transformer import Transformer
from lamina.tasks import TASKS
from lamina.tasks.base import Task
from lamina.tasks.classification import Classification, Prediction
from lamina.tasks.generating import GeneratingTask, Output, Warn


class Inference(ABC):
    """The part of a run that applies its trained model to text."""

    @property
    @abstractmethod
    def path(self) -> Path:
        """The folder of the run, for messages."""

    @property
    @abstractmethod
    def task(self) -> Task:
        """The task, which encodes text and decodes outputs."""

    @property
    @abstractmethod
    def model(self) -> Transformer:
        """The trained model."""

    def generate(
        self, texts: Iterable[str], *, to: str | None = None, prefixes: str | Iterable[str] = "", **options: Any
    ) -> list[str]:
        """The best output for every text; options are those of `GenerateOptions`, such as `beam=4`.

        to: the language to translate into, where the model knows several.
        prefixes: the text that outputs must start with: one for all of them, or one for each.
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
        """Yield all outputs for every text with their scores, in order, as soon as they are ready.

        window: the largest number of texts that are read ahead; None to read all of them.
        warn: called with a message for each text that is too long.
        """
        _refuse_single_text(texts)
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
        """The log-probability of each target, given its text."""
        _refuse_single_text(texts)
        _refuse_single_text(targets)
        task, chosen = self._generating({})
        return task.score_text(self.model, texts, targets, chosen, to=to, window=window, warn=warn)

    def predict(
        self,
        texts: Iterable[str | Sequence[str]],
        *,
        window: int | None = None,
        warn: Warn = warnings.warn,
    ) -> Iterator[Prediction | None]:
        """The label of each text with the probabilities of all labels; None for a blank text.

        texts: sentences, or pairs `(first, second)` if the classifier was trained on pairs.
        """
        _refuse_single_text(texts)
        if not isinstance(self.task, Classification):
            way = "lamina generate" if isinstance(self.task, GeneratingTask) else "lamina evaluate"
            raise UserError(f"{self.path}: task {self.task.name!r} has no labels to predict; use {way}")
        given = ((each,) if isinstance(each, str) else each for each in texts)
        return self.task.predict(self.model, given, window=window, warn=warn)

    def _generating(self, options: Mapping[str, Any]) -> tuple[GeneratingTask, GenerateOptions]:
        if not isinstance(self.task, GeneratingTask):
            able = ", ".join(name for name in TASKS if issubclass(TASKS[name], GeneratingTask))
            raise UserError(f"{self.path}: task {self.task.name!r} generates no text; these do: {able}")
        given = {**self.task.options.generation.model_dump(), **options}
        return self.task, GenerateOptions.read(given, where="generation")


def _refuse_single_text(texts: Iterable[Any]) -> None:
    if isinstance(texts, str):
        raise UserError(f"give a list of texts, such as [{texts[:40]!r}]; a single text is not a list")
