"""Small stores written directly, without text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from lamina.data.store import DROPPED, SourceRecord, Store
from lamina.data.store_writer import StoreWriter
from lamina.data.tokenizer import Tokenizer
from lamina.data.vocabulary import LearntVocabulary, VocabularyOptions
from lamina.files.hashes import hash_file

Sequences = list[list[int]]


TOKENIZER = Tokenizer.train(["some text to learn from"] * 3, VocabularyOptions(size=280))
LARGE = Tokenizer("word", LearntVocabulary(["<unk>", *map(str, range(70_001))]))
"""A vocabulary in which every token of two bytes occurs, and some of more."""


def flat(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([*map(np.array, sequences), []]).astype(np.int64), np.array([*map(len, sequences)], np.int64)


def write_store(
    folder: Path,
    splits: dict[str, dict[str, Sequences]],
    dtype: str = "uint16",
    source: Path | None = None,
    tokenizer: Tokenizer = TOKENIZER,
    **options: Any,
) -> Store:
    sources = [SourceRecord(split="train", path=str(source), bytes=1, sha256=hash_file(source))] if source else []
    with StoreWriter(folder, **options) as writer:
        records = {}
        for name, fields in splits.items():
            split = writer.split(name, {field: np.dtype(dtype) for field in fields})
            size = len(next(iter(fields.values())))
            for start in range(0, size, 3):  # in pieces, as prepare does
                split.append({field: flat(sequences[start : start + 3]) for field, sequences in fields.items()})
            records[name] = split.close({"empty": 1}, {})
        writer.write("tokenizer.json", tokenizer.json.encode())
        writer.write(DROPPED, json.dumps({"train": {"empty": {"a.txt": [3]}}}).encode())
        return writer.finish(
            settings={"max_length": 5, "over_long": "skip"},
            sources=sources,
            labels=("no", "yes"),
            tokenizers={"text": "tokenizer.json"},
            splits=records,
        )


def small(folder: Path, **options: Any) -> Store:
    sequences = [[7, 8, 9], [], [278], [10, 11]]
    return write_store(folder, {"train": {"text": sequences, "label": [[1], [0], [0], [1]]}}, **options)
