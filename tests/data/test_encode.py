"""Encoding: sequences that are too long, empty examples, and the type of token arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lamina.data.prepare import prepare
from support.small_corpora import options, parallel, texts, write


def test_over_long_sequences_are_skipped_or_cut_and_counted(tmp_path: Path) -> None:
    files = parallel(tmp_path)
    whole = prepare(options(tmp_path, **files))
    lengths = np.maximum(whole["train"].lengths("source"), whole["train"].lengths("target"))
    bound = int(np.median(lengths))
    skipped = prepare(options(tmp_path, **files, max_length=bound, output=str(tmp_path / "skipped")))
    assert len(skipped["train"]) == (lengths <= bound).sum()
    lines = (np.flatnonzero(lengths > bound) + 1).tolist()
    assert skipped.dropped()["train"] == {"over-long": {str(tmp_path / "train.s.gz"): lines}}
    cut = prepare(options(tmp_path, **files, max_length=bound, over_long="truncate", output=str(tmp_path / "cut")))
    assert len(cut["train"]) == 200
    for name in ("source", "target"):
        assert (cut["train"].lengths(name) == np.minimum(whole["train"].lengths(name), bound)).all()
        over = int((whole["train"].lengths(name) > bound).sum())
        assert cut.manifest.splits["train"].fields[name].truncated == over > 0
        for index in range(200):
            assert (cut["train"].tokens(name, index) == whole["train"].tokens(name, index)[:bound]).all()


def test_jsonl_and_large_vocabularies(tmp_path: Path) -> None:
    many = [f"w{number}" for number in range(66_000)]
    write(tmp_path, "a.jsonl", [json.dumps({"body": " ".join(many[n : n + 500])}) for n in range(0, len(many), 500)])
    words = {"kind": "word", "size": 0}
    store = prepare(options(tmp_path, format="jsonl", columns={"text": "body"}, train=["a.jsonl"], tokenizer=words))
    assert store["train"].tokens("text", 0).dtype == np.int32
    assert texts(store, "train", "text")[-1].endswith("w65999")
