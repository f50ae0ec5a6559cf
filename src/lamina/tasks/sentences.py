"""Sentences and pairs of sentences as the input of an encoder, for the tasks that read the fields `first` and `second`.

<cls> first … <sep> second … <sep>          segment 0 up to the first <sep>, then segment 1
<cls> first … <sep>                         where the store has no field `second`
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lamina.data.examples import Examples
from lamina.data.packed import Integers, PackedField, append, join, prepend
from lamina.data.store import Store
from lamina.data.tokenizer import CLS, SEP
from lamina.tasks.base import Inputs, tensor_of


def sentence_fields(store: Store) -> tuple[str, ...]:
    """`first` and, where the store has pairs, `second`; none where it has neither."""
    present = store[store.splits[0]].fields
    return tuple(name for name in ("first", "second") if name in present)


def sentence_sizes(examples: Examples, fields: Sequence[str]) -> Integers:
    """The number of tokens of each example, <cls> and <sep> included."""
    lengths = [examples.lengths(name) + 1 for name in fields]
    return sum(lengths[1:], start=lengths[0] + 1)


def join_sentences(texts: Sequence[PackedField]) -> tuple[PackedField, PackedField]:
    """The tokens and the segments of examples, from their first texts and, if there are pairs, the second ones."""
    whole = append(prepend(texts[0], CLS), SEP)
    segments = whole.with_ids(np.zeros_like(whole.ids))
    for other in texts[1:]:
        other = append(other, SEP)
        whole, segments = join(whole, other), join(segments, other.with_ids(np.ones_like(other.ids)))
    return whole, segments


def sentence_arguments(texts: Sequence[PackedField]) -> Inputs:
    """The model's arguments for the same texts."""
    whole, segments = join_sentences(texts)
    return Inputs({"tokens": tensor_of(whole), "segments": tensor_of(segments)}, {"lengths": whole.lengths})
