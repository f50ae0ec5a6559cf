"""What tasks that generate text share: lines in, lines out, in the same order, however many there are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import tee, zip_longest
from typing import Any, ClassVar, cast

from pydantic import field_validator
from torch import nn

from lamina.data.tokenizer import EOS
from lamina.errors import UserError
from lamina.generate.decoder import Model
from lamina.generate.hypothesis import Hypothesis
from lamina.generate.lengths import longest_source
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import Scored, score
from lamina.generate.search import generate, stream
from lamina.model.encoder_decoder import EncoderDecoder
from lamina.tasks.base import SampleOutput, Task, TaskOptions

Warn = Callable[[str], None]
Tokens = list[int]


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

    @field_validator("generation", mode="before")
    @classmethod
    def _others_stay(cls, given: Any) -> Any:
        """What is not given is as the task has it."""
        own = cls.model_fields["generation"].default
        return {**own.model_dump(exclude_unset=True), **given} if isinstance(given, Mapping) else given


class GeneratingTask(Task):
    end = EOS
    start: ClassVar[int]
    """The token that outputs start from."""
    input_field: ClassVar[str]
    output_field: ClassVar[str]
    options: GeneratingOptions

    def source(self, tokens: Tokens, to: str | None) -> Tokens:
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
        prefixes: str | Iterable[str] = "",
        window: int | None = None,
        warn: Warn = warnings.warn,
    ) -> Iterator[list[Output]]:
        """The best outputs of every line, best first; none for an empty line. `window` lines are read ahead at most.

        `prefixes` is what outputs have to start with: one text for all of them, or one for each.
        """
        options = options or self.options.generation
        model = cast(Model, model)
        pairs = _in_step(lines, prefixes, "prefixes")
        read, forced, kept = tee(self._encoded(model, pairs, "prefix", options, to, warn), 3)
        sources, starts = (source for source, _ in read), (prefix for _, prefix in forced)
        found = stream(model, sources, options, bos=self.start, eos=EOS, prefixes=starts, window=window)
        return (self._outputs(prefix, best) for best, (_, prefix) in zip(found, kept, strict=True))

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
        pairs = _in_step(lines, targets, "targets")
        read, scored = tee(self._encoded(model, pairs, "target", options, to, warn))
        sources, encoded = (source or self.source([], to) for source, _ in read), (target for _, target in scored)
        return score(model, sources, encoded, bos=self.start, eos=EOS, max_tokens=options.max_tokens, window=window)

    def _encoded(
        self,
        model: Model,
        pairs: Iterator[tuple[str, str]],
        what: str,
        options: GenerateOptions,
        to: str | None,
        warn: Warn,
    ) -> Iterator[tuple[Tokens, Tokens]]:
        """Lines as the model reads them, each with the prefix or target that goes with it; cut where there is no room.

        Mistakes in the options are found now, not with the first line.
        """
        added = len(self.source([], to))
        if longest_source(options, model.options) <= added:
            raise UserError(f"max_source {options.max_source} is too small: {added} come with every line; enlarge it")
        reading, writing = self.store.tokenizer(self.input_field), self.store.tokenizer(self.output_field)
        is_prompt = not isinstance(model, EncoderDecoder)
        ends = 2  # positions for the start and for one word at least
        longest = longest_source(options, model.options, taken=ends)

        def encode(number: int, line: str, given: str) -> tuple[Tokens, Tokens]:
            beside = _cut(writing.encode(given.strip()), longest, f"{what} {number}", warn)
            taken = ends + len(beside) if is_prompt else 0  # a prompt and what follows it share the positions
            room = longest_source(options, model.options, taken) - added
            tokens = _cut(reading.encode(line.strip()), room, f"line {number}", warn, keep_end=is_prompt)
            return self.source(tokens, to) if tokens else [], beside

        return (encode(number, *pair) for number, pair in enumerate(pairs, start=1))

    def _outputs(self, prefix: Tokens, hypotheses: list[Hypothesis]) -> list[Output]:
        texts = self.store.tokenizer(self.output_field).decode_batch([*prefix, *each.tokens] for each in hypotheses)
        return [Output(text, each.score, each.log_probability) for text, each in zip(texts, hypotheses, strict=True)]

    def samples(self, model: nn.Module, split: str, count: int) -> list[SampleOutput]:
        options = self.options.generation.model_copy(update={"method": "greedy", "nbest": 1})
        chosen = list(self.choose_samples(split, count))
        found = generate(cast(Model, model), [read for read, *_ in chosen], options, bos=self.start, eos=EOS)
        source, target = self.store.tokenizer(self.input_field), self.store.tokenizer(self.output_field)
        return [
            SampleOutput(source.decode(given), target.decode(wanted), target.decode(best.tokens))
            for (_, given, wanted), [best] in zip(chosen, found, strict=True)
        ]

    def choose_samples(self, split: str, count: int) -> Iterator[tuple[Tokens, Tokens, Tokens]]:
        """A few of a split: what the model reads, the source that is shown, and what should come out."""
        raise NotImplementedError


def _in_step(lines: Iterable[str], others: str | Iterable[str], what: str) -> Iterator[tuple[str, str]]:
    """Each line with its own, and both have to end together; or all with the same."""
    if isinstance(others, str):
        yield from ((line, others) for line in lines)
        return
    for line, other in zip_longest(lines, others):
        if line is None or other is None:
            raise UserError(f"there must be as many {what} as lines of input")
        yield line, other


def _cut(tokens: Tokens, longest: int, name: str, warn: Warn, *, keep_end: bool = False) -> Tokens:
    if len(tokens) <= longest:
        return tokens
    warn(f"{name}: cut from {len(tokens)} to {longest} tokens (max_source, or the positions the model has)")
    return tokens[len(tokens) - longest :] if keep_end else tokens[:longest]
