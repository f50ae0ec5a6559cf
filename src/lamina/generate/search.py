"""Generation for many sentences: batches of similar length, bounded memory, results in the order of the input.

A window of sentences is read ahead, sorted by length, and cut into batches of at most `max_tokens`. Results are
returned in the order of the input, each as soon as it and all results before it are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lamina.errors import UserError
from lamina.generate.beam import search_beams
from lamina.generate.constraints import longest
from lamina.generate.ctc import search_ctc
from lamina.generate.decoder import Decoder, Hypothesis, Model
from lamina.generate.options import GenerateOptions
from lamina.generate.packing import Packing
from lamina.generate.sampling import best_word, follow_paths, random_word
from lamina.generate.workers import count_workers, divide, side_by_side
from lamina.model.models import EncoderDecoder
from lamina.model.modes import evaluation_mode

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[list[int], list[Item]], Iterator[tuple[int, Result]]]
"""Maps the indices and items of a batch to results, each with the position of its item in the batch."""


def in_batches(
    items: Iterable[Item],
    work: Work[Item, Result],
    size: Callable[[Item], tuple[int, ...]],
    max_tokens: int,
    window: int | None = None,
    workers: int = 1,
) -> Iterator[Result]:
    """The result of every item.

    size: the number of tokens of an item, as a tuple (source, start, outputs).
    window: how many items are read and sorted by length at a time; None for all. With a window, a mistake in an item
        is raised after the results of the items before it.
    workers: how many batches are computed at a time; together they have at most `max_tokens`.
    """
    waiting = iter(items)
    first = 0
    mistake: UserError | None = None
    while mistake is None:
        chunk, mistake = _read_ahead(waiting, window)
        if not chunk and mistake is None:
            return
        yield from _window(chunk, first, work, size, max_tokens, workers)
        first += len(chunk)
    raise mistake


def _read_ahead(waiting: Iterator[Item], window: int | None) -> tuple[list[Item], UserError | None]:
    """The next items, and the mistake in the item after them, if there is one."""
    if window is None:
        return list(waiting), None
    chunk: list[Item] = []
    try:
        chunk.extend(islice(waiting, window))
    except UserError as error:
        return chunk, error
    return chunk, None


def _window(
    items: list[Item],
    first: int,
    work: Work[Item, Result],
    size: Callable[[Item], tuple[int, ...]],
    max_tokens: int,
    workers: int,
) -> Iterator[Result]:
    batches = divide(list(cut([size(item) for item in items], max_tokens // workers)), workers)

    def compute(batch: list[int]) -> list[tuple[int, Result]]:
        return list(work([first + at for at in batch], [items[at] for at in batch]))

    ready: dict[int, Result] = {}
    due = 0
    for batch, found in zip(batches, side_by_side(compute, batches, workers), strict=True):
        ready |= {batch[place]: result for place, result in found}
        while due in ready:
            yield ready.pop(due)
            due += 1


def cut(sizes: Sequence[tuple[int, ...]], max_tokens: int) -> Iterator[list[int]]:
    """Batches of indices of similar sizes, the largest first, with at most `max_tokens` when padded to the largest.

    A batch has at least one index. Each component is padded separately: the longest source and the longest output may
    be of different items. The largest come first, so that a batch that does not fit into memory fails at once.
    """
    batch: list[int] = []
    room: tuple[int, ...] = ()
    for at in sorted(range(len(sizes)), key=lambda at: (sum(sizes[at]), sizes[at]), reverse=True):
        wider = tuple(map(max, room, sizes[at]))
        if batch and (len(batch) + 1) * sum(wider) > max_tokens:
            yield batch
            batch = []
        room = wider if batch else sizes[at]
        batch.append(at)
    if batch:
        yield batch


Tokens = Sequence[int]
ModelInput = Tokens | NDArray[Any]
"""The input of a model: tokens, or the frames of speech, (frames, features)."""


def generate(
    model: Model,
    sources: Sequence[ModelInput],
    options: GenerateOptions,
    *,
    bos: int,
    eos: int,
    prefixes: Sequence[Tokens] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first; `prefixes` are the tokens that each output must start with.

    A language model continues its source, the prompt. `progress` is called with the number of sources of each batch, by
    the thread that has decoded it.
    """
    return list(stream(model, sources, options, bos=bos, eos=eos, prefixes=prefixes, progress=progress))


def stream(
    model: Model,
    sources: Iterable[ModelInput],
    options: GenerateOptions,
    *,
    bos: int,
    eos: int,
    prefixes: Iterable[Tokens] | None = None,
    window: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[list[Hypothesis]]:
    """Like `generate`, for a stream of sources, of which `window` are read and sorted by length at a time.

    An empty source has no hypotheses.
    """
    pairs = ((source, ()) for source in sources) if prefixes is None else zip(sources, prefixes, strict=True)
    packing, reporting = Packing(model), Lock()

    def read() -> Iterator[GenerationInput]:
        for source, prefix in pairs:
            each = GenerationInput.of(model, source, prefix, options, bos)
            packing.count(options.width * each.limit)
            yield each

    def work(numbers: list[int], batch: list[GenerationInput]) -> Iterator[tuple[int, list[Hypothesis]]]:
        full = [place for place, each in enumerate(batch) if each.limit]
        yield from ((place, []) for place, each in enumerate(batch) if not each.limit)
        if full:
            chosen = [numbers[place] for place in full], [batch[place] for place in full]
            found = _search(packing.model(), *chosen, options, eos)
            yield from ((full[place], hypotheses) for place, hypotheses in found)
        if progress is not None:
            with reporting:
                progress(len(batch))

    workers = count_workers(model)
    return in_batches(read(), work, lambda each: each.size(options.width), options.max_tokens, window, workers)


class GenerationInput(NamedTuple):
    """A sentence to generate an output for."""

    source: ModelInput
    """The encoder's input; empty if the model has no encoder."""
    start: Tokens
    """The decoder's first tokens, which the output continues."""
    limit: int
    """The largest number of tokens of the output; 0 for an empty source."""

    @classmethod
    def of(
        cls, model: Model, source: ModelInput, prefix: Tokens, options: GenerateOptions, bos: int
    ) -> GenerationInput:
        if not len(source):
            return cls((), (), 0)
        start: list[int] = [bos, *prefix] if isinstance(model, EncoderDecoder) else [bos, *source, *prefix]
        limit = longest(len(source), len(start), options, model.options)
        if limit < 1:
            raise UserError(
                f"{len(start)} tokens to start from leave no room for an output: the model has "
                f"{model.options.max_length} learned positions"
            )
        return cls(source if isinstance(model, EncoderDecoder) else (), start, limit)

    def size(self, width: int) -> tuple[int, ...]:
        """The largest numbers of tokens of source, start and outputs."""
        return len(self.source), len(self.start), width * (self.limit + 1)


@torch.inference_mode()
def _search(
    model: Model, numbers: list[int], batch: list[GenerationInput], options: GenerateOptions, eos: int
) -> list[tuple[int, list[Hypothesis]]]:
    limits = np.array([each.limit for each in batch])
    room = options.width * (int(limits.max()) + 1)
    with evaluation_mode(model):
        if options.method == "ctc":
            return list(enumerate(_search_ctc(model, batch, options, eos)))
        decoder = Decoder(model, [each.source for each in batch], [each.start for each in batch], room)
        if options.method == "beam":
            return list(search_beams(decoder, limits, options, eos))
        choose = random_word(options, numbers) if options.method == "sample" else best_word
        return list(follow_paths(decoder, limits, options, eos, choose))


def _search_ctc(
    model: Model, batch: list[GenerationInput], options: GenerateOptions, eos: int
) -> list[list[Hypothesis]]:
    if not isinstance(model, EncoderDecoder) or model.front_end is None:
        raise UserError("method = 'ctc' is for speech recognition; use beam, greedy or sample")
    if any(len(each.start) > 1 for each in batch):
        raise UserError("method = 'ctc' cannot start outputs with a given prefix; use method=beam, or leave it out")
    sources, limits = [np.asarray(each.source) for each in batch], [each.limit for each in batch]
    return search_ctc(model, sources, limits, options, bos=batch[0].start[0], eos=eos)
