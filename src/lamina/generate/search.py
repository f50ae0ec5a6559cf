"""Generation as a whole: sentences in, hypotheses out, in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from lamina.errors import UserError
from lamina.generate.batching import in_batches
from lamina.generate.beam import search_beams
from lamina.generate.decoder import Decoder, Model
from lamina.generate.hypothesis import Hypothesis
from lamina.generate.lengths import longest
from lamina.generate.options import GenerateOptions
from lamina.generate.paths import best_word, follow_paths
from lamina.generate.sampling import random_word
from lamina.model.encoder_decoder import EncoderDecoder
from lamina.model.evaluation import evaluation_mode

Tokens = Sequence[int]


def generate(
    model: Model,
    sources: Sequence[Tokens],
    options: GenerateOptions,
    *,
    bos: int,
    eos: int,
    prefixes: Sequence[Tokens] | None = None,
) -> list[list[Hypothesis]]:
    """The best hypotheses of each source, best first; `prefixes` are tokens that each output has to start with.

    A language model goes on from its source, the prompt.
    """
    return list(stream(model, sources, options, bos=bos, eos=eos, prefixes=prefixes))


def stream(
    model: Model,
    sources: Iterable[Tokens],
    options: GenerateOptions,
    *,
    bos: int,
    eos: int,
    prefixes: Iterable[Tokens] | None = None,
    window: int | None = None,
) -> Iterator[list[Hypothesis]]:
    """As `generate`, for any number of sources: `window` of them are read ahead at most.

    An empty source has no hypotheses.
    """
    if prefixes is None:
        waiting = (Waiting.of(model, source, (), options, bos) for source in sources)
    else:
        pairs = zip(sources, prefixes, strict=True)
        waiting = (Waiting.of(model, source, prefix, options, bos) for source, prefix in pairs)

    def work(numbers: list[int], batch: list[Waiting]) -> Iterator[tuple[int, list[Hypothesis]]]:
        full = [place for place, each in enumerate(batch) if each.limit]
        yield from ((place, []) for place, each in enumerate(batch) if not each.limit)
        if full:
            found = _search(model, [numbers[place] for place in full], [batch[place] for place in full], options, eos)
            yield from ((full[place], hypotheses) for place, hypotheses in found)

    return in_batches(waiting, work, lambda each: each.size(options.width), options.max_tokens, window)


class Waiting(NamedTuple):
    """A sentence before its turn."""

    source: Tokens
    """What the encoder reads; nothing where there is none."""
    start: Tokens
    """What the output goes on from."""
    limit: int
    """Tokens the output may have; 0 where there is nothing to say."""

    @classmethod
    def of(cls, model: Model, source: Tokens, prefix: Tokens, options: GenerateOptions, bos: int) -> Waiting:
        if not len(source):
            return cls((), (), 0)
        start = [bos, *prefix] if isinstance(model, EncoderDecoder) else [bos, *source, *prefix]
        limit = longest(len(source), len(start), options, model.options)
        if limit < 1:
            raise UserError(
                f"{len(start)} tokens to start from leave no room for an output: the model has "
                f"{model.options.max_length} learned positions"
            )
        return cls(source if isinstance(model, EncoderDecoder) else (), start, limit)

    def size(self, width: int) -> tuple[int, ...]:
        """Tokens it may need at most, for its source, its start and its outputs."""
        return len(self.source), len(self.start), width * (self.limit + 1)


@torch.inference_mode()
def _search(
    model: Model, numbers: list[int], batch: list[Waiting], options: GenerateOptions, eos: int
) -> list[tuple[int, list[Hypothesis]]]:
    limits = np.array([each.limit for each in batch])
    room = options.width * (int(limits.max()) + 1)
    with evaluation_mode(model):
        decoder = Decoder(model, [each.source for each in batch], [each.start for each in batch], room)
        if options.method == "beam":
            return list(search_beams(decoder, limits, options, eos))
        choose = random_word(options, numbers) if options.method == "sample" else best_word
        return list(follow_paths(decoder, limits, options, eos, choose))
