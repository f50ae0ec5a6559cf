"""A store of random tokens: the fields, tokenizers and labels of another store, and no special tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lamina.data.prepare import prepare
from lamina.data.synthetic.random_store import random_store
from lamina.tasks.classification import Classification


def test_fields_and_values(tmp_path: Path) -> None:
    like = prepare(Classification.embedded_options(tmp_path))
    store = random_store(like, tmp_path / "random", examples=50, length=9)
    train = store["train"]
    assert train.fields == like["train"].fields
    assert store.labels == like.labels
    assert store.tokenizer().sha256 == like.tokenizer().sha256
    assert set(train.lengths("first")) == {9}
    assert set(train.lengths("label")) == {1}
    tokens, _ = train.gather("first", np.arange(50))
    assert tokens.min() >= len(like.tokenizer().specials)
    assert len(set(tokens.tolist())) > 100
    assert set(train.gather("label", np.arange(50))[0].tolist()) == set(range(len(like.labels)))
