"""Small corpora of random sentences, and the options that prepare them."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

from lamina.data.prepare import PrepareOptions
from lamina.data.store import Store

WORDS = ["the", "dog", "cat", "house", "river", "runs", "sleeps", "quickly", "under", "blue", "seven", "again"]


def sentences(count: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randrange(2, 9))) for _ in range(count)]


def write(folder: Path, name: str, lines: list[str]) -> str:
    raw = "".join(line + "\n" for line in lines).encode()
    (folder / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return name


def options(folder: Path, **values: Any) -> PrepareOptions:
    given = {"output": str(folder / "store"), "folder": str(folder), "tokenizer": {"size": 400}, **values}
    return PrepareOptions.read(given, "test")


def texts(store: Store, split: str, name: str) -> list[str]:
    tokenizer = store.tokenizer(name)
    return tokenizer.decode_batch(store[split].tokens(name, index) for index in range(len(store[split])))


def parallel(folder: Path, count: int = 200) -> dict[str, Any]:
    source = [f"s{number} {text}" for number, text in enumerate(sentences(count, 1))]
    target = [f"t{number} {text}" for number, text in enumerate(sentences(count, 2))]
    return {"train": [write(folder, "train.s.gz", source), write(folder, "train.t.gz", target)]}
