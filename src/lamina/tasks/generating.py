"""What tasks that generate text share: lines in, lines out, in the same order, however many there are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from torch import nn

from lamina.data.tokenizer import EOS
from lamina.errors import UserError
from lamina.generate.decoder import Model
from lamina.generate.hypothesis import Hypothesis
from lamina.generate.lengths import longest_source
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import Scored, score
from lamina.generate.search import stream
from lamina.tasks.base import Task, TaskOptions

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Output:
    """One of the best texts for a line."""

    text: str
    score: float
    """What hypotheses compete by: log-probability over length penalty."""
    log_probability: float


class GeneratingOptions(TaskOptions):
    generation: GenerateOptions = GenerateOptions()
    """How evaluation and `lamina generate` search, below."""


class GeneratingTask(Task):
    end = EOS
    start: ClassVar[int]
    """The token that outputs start from."""
    input_field: ClassVar[str]
    output_field: ClassVar[str]
    options: GeneratingOptions

    def source(self, tokens: list[int], to: str | None) -> list[int]:
        """The tokens of a text as the model reads them; `to` is the language asked for, where there is a choice."""
        if to is not None:
            raise UserError(f"task {self.name!r} has no choice of target language; leave out `to`")
        return tokens

    def generate_text(
        self,
        model: nn.Module,
        lines: Iterable[str],
        options: GenerateOptions | None = None,
        *,
        to: str | None = None,
        window: int | None = None,
        warn: Warn = warnings.warn,
    ) -> Iterator[list[Output]]:
        """The best outputs of every line, best first; none for an empty line. `window` lines are read ahead at most."""
        options = options or self.options.generation
        model = cast(Model, model)
        sources = self._sources(model, lines, options, to, warn)
        for hypotheses in stream(model, sources, options, bos=self.start, eos=EOS, window=window):
            yield self._outputs(hypotheses)

    def score_text(
        self,
        model: nn.Module,
        lines: Iterable[str],
        targets: Iterable[str],
        options: GenerateOptions | None = None,
        *,
        to: str | None = None,
        window: int | None = None,
        warn: Warn = warnings.warn,
    ) -> Iterator[Scored]:
        """How likely the model finds each target."""
        options = options or self.options.generation
        model = cast(Model, model)
        sources = (source or self.source([], to) for source in self._sources(model, lines, options, to, warn))
        longest = longest_source(options, model.options) - 1
        encoded = self._encoded(targets, self.output_field, longest, "target", warn)
        found = score(model, sources, encoded, bos=self.start, eos=EOS, max_tokens=options.max_tokens, window=window)
        try:
            yield from found
        except ValueError as error:
            if "zip()" not in str(error):
                raise
            raise UserError("there must be as many targets as lines of input") from None

    def _sources(
        self, model: Model, lines: Iterable[str], options: GenerateOptions, to: str | None, warn: Warn
    ) -> Iterator[list[int]]:
        added = len(self.source([], to))
        longest = longest_source(options, model.options) - added
        for tokens in self._encoded(lines, self.input_field, longest, "line", warn):
            yield self.source(tokens, to) if tokens else []

    def _encoded(self, lines: Iterable[str], field: str, longest: int, what: str, warn: Warn) -> Iterator[list[int]]:
        tokenizer = self.store.tokenizer(field)
        for number, line in enumerate(lines, start=1):
            tokens = tokenizer.encode(line.strip())
            if len(tokens) > longest:
                warn(f"{what} {number}: cut from {len(tokens)} to {longest} tokens (max_source)")
            yield tokens[:longest]

    def _outputs(self, hypotheses: list[Hypothesis]) -> list[Output]:
        texts = self.store.tokenizer(self.output_field).decode_batch(each.tokens for each in hypotheses)
        return [Output(text, each.score, each.log_probability) for text, each in zip(texts, hypotheses, strict=True)]
