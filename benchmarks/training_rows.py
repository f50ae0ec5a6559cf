"""The work of the training benchmark: sizes of models, batches of random sentences, and the operations they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lamina.model.options import ModelOptions, pair
from training_peers import FIRST_WORD, LANGUAGE_MODELS, TRANSLATION, Batch


@dataclass(frozen=True)
class Row:
    """One comparison: a model, and the batches of which a step takes one after the other."""

    name: str
    title: str
    sizes: dict[str, Any]
    batches: list[Batch]
    goal: float
    """The speed relative to the fastest peer that is aimed at."""
    goal_share: float | None = None
    """The share of the peak of matrix products that is aimed at."""
    threads: int | None = None
    """The number of threads; None for that of the whole benchmark."""
    overrides: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def options(self) -> ModelOptions:
        return ModelOptions.read(self.sizes | self.overrides, where=f"the row {self.name}")

    @property
    def peers(self) -> list[str]:
        return list(LANGUAGE_MODELS if self.options.kind == "decoder" else TRANSLATION)

    @property
    def flops(self) -> float:
        """The operations of one pass over all batches, forward and backward, on real tokens only."""
        return sum(step_flops(self.options, batch) for batch in self.batches)

    @property
    def tokens(self) -> int:
        """The real target tokens of all batches."""
        return int(sum(batch.target_lengths.sum() for batch in self.batches))


def step_flops(options: ModelOptions, batch: Batch) -> float:
    """Multiplications and additions of all matrix products; the backward pass takes twice those of the forward pass."""
    dim, wide = options.model_dim, options.feed_forward_dim
    source, target = float(batch.source_lengths.sum()), float(batch.target_lengths.sum())
    source_squares, target_squares = (float((each**2).sum()) for each in (batch.source_lengths, batch.target_lengths))
    crossed = float((batch.source_lengths * batch.target_lengths).sum()) if batch.sources else 0.0
    encoder_layers, decoder_layers = pair(options.num_layers)
    matrices = 4 * dim**2 + 2 * dim * wide  # of self-attention and feed-forward network
    forward = decoder_layers * (2 * target * matrices + 4 * dim * target_squares / 2)  # half of it is masked
    if batch.sources:
        forward += encoder_layers * (2 * source * matrices + 4 * dim * source_squares)
        forward += decoder_layers * (2 * dim**2 * (2 * target + 2 * source) + 4 * dim * crossed)
    forward += 2 * target * dim * pair(options.vocab_size)[-1]
    return 3 * forward


def all_rows(scale: int = 1, overrides: dict[str, Any] | None = None) -> list[Row]:
    """The rows, with 1 / scale of the tokens of the wide models, and with changed sizes."""
    iwslt = {"preset": "iwslt", "residual": "post-ln", "dropout": 0.1}
    deep = iwslt | {"num_layers": 18, "feed_forward_dim": 2048, "num_heads": 8}
    narrow = {"residual": "post-ln", "num_layers": 18, "model_dim": 64, "feed_forward_dim": 128, "num_heads": 4}
    narrow |= {"vocab_size": 1000, "dropout": 0.1}
    lm = {"kind": "decoder", "residual": "pre-ln", "num_layers": 6, "model_dim": 512, "feed_forward_dim": 2048}
    lm |= {"num_heads": 8, "vocab_size": 10_000, "positions": "learned", "max_length": 512, "dropout": 0.1}
    lm |= {"activation": "gelu", "scale_embeddings": False}
    changed = overrides or {}
    num_words = changed.get("vocab_size", 1000)
    near, free = (24, 26), (4, 100)
    bucketed, deep_batch = (pairs(tokens // scale, near, num_words) for tokens in (2048, 1024))
    shuffled = [next(iter(pairs(256, free, num_words, seed))) for seed in range(max(2, 8 // scale))]
    squares = Batch([], [_words(512, num_words, seed) for seed in range(max(1, 8 // scale))])
    small = Batch(*([_words(24, num_words, seed) for seed in range(first, first + 16)] for first in (0, 16)))
    return [
        Row("bucketed", "6-6/512/1024, sentences of one length", iwslt, bucketed, 1.2, 0.65, overrides=changed),
        Row("shuffled", "the same, 256 target tokens of any lengths", iwslt, shuffled, 1.8, 0.5, overrides=changed),
        Row(
            "lm",
            "language model 6/512/2048, dropout everywhere",
            lm | {"attention_dropout": 0.1},
            [squares],
            1.4,
            0.5,
            overrides=changed,
        ),
        Row("lm-plain", "the same without attention dropout", lm, [squares], 1.15, 0.65, overrides=changed),
        Row("deep", "18-18/512/2048", deep, deep_batch, 1.15, 0.55, overrides=changed),
        Row("narrow", "18-18/64/128, one thread", narrow, [small], 2.0, threads=1, overrides=changed),
    ]


def pairs(tokens: int, between: tuple[int, int], num_words: int, seed: int = 0) -> list[Batch]:
    """One batch of `tokens` source and target tokens each, in sentences of random lengths (log-normal, clipped)."""
    draw = np.random.default_rng(seed)
    sides = []
    for side in range(2):
        lengths: list[int] = []
        while (rest := tokens - sum(lengths)) > 0:
            lengths.append(min(rest, int(np.clip(draw.lognormal(3.1, 0.6), *between))))
        sides.append([_words(length, num_words, 2 * index + side) for index, length in enumerate(lengths)])
    count = min(map(len, sides))
    source, target = (_merged(side, count) for side in sides)
    return [Batch(source, target)]


def _merged(sentences: list[list[int]], count: int) -> list[list[int]]:
    """So many sentences, the same tokens: those too many are spread over the others."""
    kept, rest = sentences[:count], sentences[count:]
    for index, extra in enumerate(rest):
        kept[index % count] = kept[index % count] + extra
    return kept


def _words(length: int, num_words: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(FIRST_WORD, num_words - 1, length).tolist()
