"""Translation between many language pairs by one model; a tag before the source names the target language.

The store holds one set per pair, `train/de-en`; every pair is used in both directions. With temperature T, a direction
of n examples is sampled in proportion to n^(1/T), so that small pairs are seen more often than by their size.

    source   <2en> w₁ … wₙ <eos>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from lamina.data.batches import Batch, BatchPlan, OrderOptions
from lamina.data.examples import Examples, JoinedExamples, TemperatureSampling
from lamina.data.language_pair import LanguagePair
from lamina.data.packed import Integers, PackedField, append, join
from lamina.data.store import Split, Store
from lamina.data.tokenizer import EOS
from lamina.errors import UserError, unknown
from lamina.model.models import EncoderDecoder
from lamina.tasks.base import MAX_TOKENS
from lamina.tasks.metric_tables import MetricRow, MetricTable
from lamina.tasks.metrics import Bleu, bleu, sentence_scores, signatures
from lamina.tasks.sequence_to_sequence import SequenceOptions, SequenceToSequence, loss_metrics

MEANS = ("EX", "XE")
"""The mean BLEU out of the centre language and into it; the mean over all directions is the task's metric."""


class MultilingualTranslation(SequenceToSequence):
    class Options(SequenceOptions):
        bleu: Bleu = "bleu"
        """`bleu` for plain text, `bleu-tok` where the text is tokenised and lower-cased already."""
        temperature: float = Field(5.0, gt=0)
        """The sampling temperature: 1 samples every example equally often, higher values favour small language
        pairs."""
        centre: str | None = None
        """The language whose directions are averaged separately: EX out of it, XE into it. The default is the language
        that is in every pair."""

    name = "multilingual-translation"
    embedded = "embedded-multilingual"
    metric = "bleu"
    directions_per_example = 2
    options: Options

    def signatures(self) -> dict[str, str]:
        return signatures(self.options.bleu)

    def __init__(self, store: Store, options: Options) -> None:
        super().__init__(store, options)
        pairs = self.pairs = [_pair_of(store, name) for name in store.sets("train")]
        in_all = [language for language in pairs[0] if all(language in pair for pair in pairs)]
        self.centre = options.centre or (in_all or [""])[-1]
        languages = sorted({language for pair in pairs for language in pair})
        if self.centre not in languages:
            raise unknown("centre language", self.centre, languages)
        self._joined: dict[str, JoinedExamples] = {}

    def evaluated_sets(self, split: str) -> tuple[str, ...]:
        """All pairs as one set, because the metrics are means over directions."""
        return (split,) if self.store.sets(split) else ()

    def directions(self, split: str) -> list[Direction]:
        """Every pair of the split, forwards and backwards."""
        found = []
        for name in self.store.sets(split):
            pair = _pair_of(self.store, name)
            tag = self.store.tokenizer("source").tag
            found.append(Direction(self.store[name], pair.source, pair.target, tag(pair.target)))
            found.append(Direction(self.store[name], pair.target, pair.source, tag(pair.source), swapped=True))
        return found

    def examples(self, split: str, *, training: bool = False) -> JoinedExamples:
        if split not in self._joined:
            self._joined[split] = JoinedExamples(self.directions(split))
        return self._joined[split]

    def plan(self, split: str, order: OrderOptions, seed: int = 0) -> BatchPlan:
        examples = self.examples(split)
        draw = TemperatureSampling(examples.counts, self.options.temperature, seed) if order.shuffle else None
        return BatchPlan(self.sizes(examples), order, seed, draw)

    def sizes(self, examples: Examples) -> Integers:
        return np.maximum(examples.lengths("source") + 2, examples.lengths("target") + 1)

    def source(self, tokens: list[int], to: str | None) -> list[int]:
        tokenizer = self.store.tokenizer("source")
        if to is None:
            raise UserError(f"name the language to translate into, one of {', '.join(tokenizer.languages)}")
        return [tokenizer.tag(to), *tokens, EOS]

    def source_of(self, batch: Batch, seed: int | None = None) -> PackedField:
        return self.drop_words(append(join(batch["tag"], batch["source"]), EOS), batch, seed, "source")

    def show_source(self, batch: Batch) -> str:
        return f"{self.store.tokenizer('source').name(int(batch['tag'].ids[0]))} {super().show_source(batch)}"

    def metric_tables(self) -> tuple[MetricTable, ...]:
        """BLEU out of the centre and into it for every other language, with the means EX, XE and ALL as in Table 4 of
        Xie et al. 2023; BLEU of directions without the centre is a table of its own."""
        centre, others, apart = self.centre, dict[str, None](), dict[LanguagePair, None]()
        for pair in self.pairs:
            for source, target in (pair, tuple(pair)[::-1]):
                if source == centre:
                    others[target] = None
                elif target != centre:
                    apart[LanguagePair(source, target)] = None
        columns = (f"EX (from {centre})", f"XE (into {centre})", "ALL")
        rows = tuple(MetricRow(each, (_bleu_of(centre, each), _bleu_of(each, centre), None)) for each in others)
        around = MetricTable("BLEU by language", "language", columns, rows, MetricRow("mean", (*MEANS, self.metric)))
        beside = tuple(MetricRow(f"{pair.source} to {pair.target}", (_bleu_of(*pair),)) for pair in apart)
        return around, MetricTable("BLEU of the other directions", "direction", ("BLEU",), beside)

    def texts(self, batch: Batch) -> dict[str, str]:
        tokenizer, tag = self.store.tokenizer("source"), int(batch["tag"].ids[0])
        [language] = [each for each in tokenizer.languages if tokenizer.tag(each) == tag]
        return {"to": language, **super().texts(batch)}

    def score_sentence(self, hypothesis: str, reference: str) -> dict[str, float]:
        return sentence_scores(hypothesis, reference, self.options.bleu)

    def evaluate(self, model: nn.Module, split: str, max_tokens: int = MAX_TOKENS) -> dict[str, float]:
        """BLEU of every direction, and its means over those out of the centre (EX), into it (XE), and all (`bleu`)."""
        assert isinstance(model, EncoderDecoder)
        hypotheses, references = self.generate(model, split, max_tokens)
        scores: list[tuple[Direction, float]] = []
        owners = self.examples(split).part_of(self.fitting(model, split))
        for number, direction in enumerate(self.directions(split)):
            own = np.flatnonzero(owners == number)
            if len(own):
                translated, correct = ([texts[at] for at in own] for texts in (hypotheses, references))
                scores.append((direction, bleu(translated, correct, self.options.bleu).value))
        out_of, into = MEANS
        means = {
            out_of: [value for direction, value in scores if direction.source == self.centre],
            into: [value for direction, value in scores if direction.target == self.centre],
            self.metric: [value for _, value in scores],
        }
        named = {_bleu_of(direction.source, direction.target): value for direction, value in scores}
        losses = loss_metrics(self.total_losses(model, split, max_tokens))
        return losses | named | {name: sum(values) / len(values) for name, values in means.items() if values}


def _bleu_of(source: str, target: str) -> str:
    """The name of the metric of a direction."""
    return f"bleu {source}-{target}"


@dataclass(frozen=True)
class Direction:
    """The examples of a language pair in one direction; the field `tag` names the target language."""

    split: Split
    source: str
    target: str
    tag: int
    swapped: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        return "source", "target", "tag"

    def __len__(self) -> int:
        return len(self.split)

    def lengths(self, field: str) -> Integers:
        return np.ones(len(self), np.int64) if field == "tag" else self.split.lengths(self._stored(field))

    def tokens(self, field: str, index: int) -> NDArray[Any]:
        return np.array([self.tag]) if field == "tag" else self.split.tokens(self._stored(field), index)

    def gather(self, field: str, indices: Integers) -> tuple[Integers, Integers]:
        if field == "tag":
            return np.full(len(indices), self.tag), np.ones(len(indices), np.int64)
        return self.split.gather(self._stored(field), indices)

    def _stored(self, field: str) -> str:
        return {"source": "target", "target": "source"}[field] if self.swapped else field


def _pair_of(store: Store, name: str) -> LanguagePair:
    pair = LanguagePair.of_set(name)
    if pair is None:
        raise UserError(f"{store.folder}: the set {name!r} is not named like a pair of languages, `train/de-en`")
    return pair
