"""A store of random tokens, for measurements of a model whose data is not at hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lamina.data.store import DROPPED, Store
from lamina.data.store_writer import StoreWriter


def random_store(like: Store, folder: Path, *, examples: int, length: int) -> Store:
    """A store with the tokenizers, labels and fields of another one, and a training split of uniform random tokens.

    Special tokens are left out. Every text has `length` tokens; labels are random too.
    """
    generator = np.random.default_rng(0)
    fields = like[like.splits[0]].fields
    with StoreWriter(folder) as writer:
        for name in set(like.manifest.tokenizers.values()):
            writer.write(name, (like.folder / name).read_bytes())
        writer.write(DROPPED, json.dumps({"train": {}}).encode())
        split = writer.split("train", dict.fromkeys(fields, np.dtype(np.int32)))
        sequences = {}
        for field in fields:
            is_text = field in like.manifest.tokenizers
            first = len(like.tokenizer(field).specials) if is_text else 0
            lengths = np.full(examples, length if is_text else 1)
            sequences[field] = generator.integers(first, like.num_values(field), lengths.sum()), lengths
        split.append(sequences)
        return writer.finish(
            settings=like.manifest.settings,
            sources=(),
            labels=like.labels,
            tokenizers=like.manifest.tokenizers,
            splits={"train": split.close({}, {})},
        )
