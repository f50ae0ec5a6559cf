"""The base class of tasks that generate text, and their search and scoring of lines of text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import tee, zip_longest
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

from numpy.typing import NDArray
from pydantic import field_validator, model_validator
from torch import nn

from lamina.data.readers.base import trim
from lamina.data.tokenizer import EOS
from lamina.errors import UserError
from lamina.generate.constraints import longest_source
from lamina.generate.decoder import Hypothesis, Model
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import Scored, score
from lamina.generate.search import ModelInput, generate, stream
from lamina.model.models import EncoderDecoder
from lamina.tasks.base import SampleOutput, Task, TaskOptions

Sequenced = TypeVar("Sequenced", list[int], NDArray[Any])
Warn = Callable[[str], None]
TokenIds = list[int]


@dataclass(frozen=True)
class Output:
    """One generated text."""

    text: str
    score: float
    """The log-probability divided by the length penalty, by which hypotheses are ranked."""
    log_probability: float


class SourceLimit(NamedTuple):
    """The largest number of tokens of an input; a longer one is truncated with a warning."""

    longest: int
    name: str
    """The name of the input in the warning."""
    warn: Warn
    keep_end: bool = False

    def cut(self, tokens: Sequenced) -> Sequenced:
        if len(tokens) <= self.longest:
            return tokens
        given = f"cut from {len(tokens)} to {self.longest} tokens"
        self.warn(f"{self.name}: {given} (max_source, or the positions the model has)")
        return tokens[len(tokens) - self.longest :] if self.keep_end else tokens[: self.longest]


class GeneratingOptions(TaskOptions):
    generation: GenerateOptions = GenerateOptions()
    """Options of generation, used in evaluation and by `lamina generate`."""

    @field_validator("generation", mode="before")
    @classmethod
    def _keep_task_defaults(cls, given: Any) -> Any:
        """Keys that are not given keep the task's defaults, which may differ from those of `GenerateOptions`."""
        own = cls.model_fields["generation"].default
        return {**own.model_dump(exclude_unset=True), **given} if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _ctc_is_trained(self) -> Self:
        """Said before the training: the search would fail at the first evaluation, which may be at the end."""
        if self.generation.method == "ctc" and not getattr(self, "ctc_weight", 0):
            raise ValueError(
                "generation.method = 'ctc' needs the task speech-recognition with ctc_weight above 0; "
                "use beam, greedy or sample"
            )
        return self


class GeneratingTask(Task):
    end = EOS
    start: ClassVar[int]
    """The first input token of the decoder."""
    input_field: ClassVar[str]
    """The field whose tokenizer encodes a line of input."""
    output_field: ClassVar[str]
    """The field whose tokenizer decodes the output."""
    options: GeneratingOptions

    def source(self, tokens: TokenIds, to: str | None) -> TokenIds:
        """The model's input for the tokens of a text; `to` is the target language, for multilingual tasks."""
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
        """The outputs for every line, best first, in the order of the lines; none for an empty line.

        prefixes: the text that outputs must start with: one for all lines, or one per line.
        window: how many lines are read and sorted by length at a time; None for all.
        """
        options = options or self.options.generation
        model = cast(Model, model)
        pairs = _in_step(self.check_lines(lines) if window != 1 else lines, prefixes, "prefixes")
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
        """The log-probability of each target given its line."""
        options = options or self.options.generation
        model = cast(Model, model)
        pairs = _in_step(self.check_lines(lines) if window != 1 else lines, targets, "targets")
        read, scored = tee(self._encoded(model, pairs, "target", options, to, warn))
        sources, encoded = (
            (source if len(source) else self.source([], to) for source, _ in read),
            (target for _, target in scored),
        )
        return score(model, sources, encoded, bos=self.start, eos=EOS, max_tokens=options.max_tokens, window=window)

    def _encoded(
        self,
        model: Model,
        pairs: Iterator[tuple[str, str]],
        what: str,
        options: GenerateOptions,
        to: str | None,
        warn: Warn,
    ) -> Iterator[tuple[ModelInput, TokenIds]]:
        """The model's input for each line and the tokens of its prefix or target, both truncated to the model's
        positions.

        Wrong options raise here, before the first line is read.
        """
        added = len(self.source([], to))
        if longest_source(options, model.options) <= added:
            raise UserError(f"max_source {options.max_source} is too small: {added} come with every line; enlarge it")
        writing = self.store.tokenizer(self.output_field)
        is_prompt = not isinstance(model, EncoderDecoder)
        ends = 2  # positions for the start token and at least one word
        longest = longest_source(options, model.options, taken=ends)

        def encode(number: int, line: str, given: str) -> tuple[ModelInput, TokenIds]:
            beside = SourceLimit(longest, f"{what} {number}", warn).cut(writing.encode(trim(given)))
            taken = ends + len(beside) if is_prompt else 0  # a prompt and its continuation share the positions
            room = longest_source(options, model.options, taken) - added
            limit = SourceLimit(room, f"line {number}", warn, keep_end=is_prompt)
            return self.encode_line(trim(line), limit, to), beside

        return (encode(number, *pair) for number, pair in enumerate(pairs, start=1))

    def check_lines(self, lines: Iterable[str]) -> Iterable[str]:
        """The lines; a task whose lines name files checks them all before the first one is used."""
        return lines

    def encode_line(self, line: str, limit: SourceLimit, to: str | None) -> ModelInput:
        """The model's input for a line of text, cut to the limit; empty for an empty line."""
        tokens = limit.cut(self.store.tokenizer(self.input_field).encode(line))
        return self.source(tokens, to) if tokens else []

    def _outputs(self, prefix: TokenIds, hypotheses: list[Hypothesis]) -> list[Output]:
        texts = self.store.tokenizer(self.output_field).decode_batch([*prefix, *each.tokens] for each in hypotheses)
        return [Output(text, each.score, each.log_probability) for text, each in zip(texts, hypotheses, strict=True)]

    def samples(self, model: nn.Module, split: str, count: int) -> list[SampleOutput]:
        options = self.options.generation.model_copy(update={"method": "greedy", "nbest": 1})
        chosen = list(self.choose_samples(split, count))
        found = generate(cast(Model, model), [read for read, *_ in chosen], options, bos=self.start, eos=EOS)
        target = self.store.tokenizer(self.output_field)
        return [
            SampleOutput(given, target.decode(wanted), target.decode(best.tokens))
            for (_, given, wanted), [best] in zip(chosen, found, strict=True)
        ]

    def choose_samples(self, split: str, count: int) -> Iterator[tuple[ModelInput, str, TokenIds]]:
        """Some examples of a split: the model's input, the source to show, and the reference."""
        raise NotImplementedError


def _in_step(lines: Iterable[str], others: str | Iterable[str], what: str) -> Iterator[tuple[str, str]]:
    """Each line with its own text of `others`, of which there must be as many; or every line with the same text."""
    if isinstance(others, str):
        yield from ((line, others) for line in lines)
        return
    for line, other in zip_longest(lines, others):
        if line is None or other is None:
            raise UserError(f"there must be as many {what} as lines of input")
        yield line, other
