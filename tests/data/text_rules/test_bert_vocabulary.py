"""The vocabulary of a BERT: both files of it, the order of its rows, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lamina.data.text_rules.bert_vocabulary import find_bert_vocabulary, read_bert_vocabulary
from lamina.data.tokenizer import SPECIALS, Tokenizer
from lamina.errors import UserError

TOKENS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]


def fast_tokenizer(**model: Any) -> str:
    vocabulary = {token: at for at, token in enumerate(TOKENS)}
    chosen = {"type": "WordPiece", "vocab": vocabulary, "continuing_subword_prefix": "##"} | model
    return json.dumps({"model": chosen, "normalizer": {"type": "BertNormalizer", "lowercase": False}})


def test_both_files_give_the_same_tokens(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    (tmp_path / "tokenizer.json").write_text(fast_tokenizer())
    assert find_bert_vocabulary(tmp_path) == tmp_path / "vocab.txt"
    plain, fast = (read_bert_vocabulary(tmp_path / name) for name in ("vocab.txt", "tokenizer.json"))
    assert list(plain.tokens) == list(fast.tokens) == TOKENS
    assert (plain.lower_case, fast.lower_case) == (True, False)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert read_bert_vocabulary(tmp_path / "vocab.txt") == fast


def test_a_row_for_every_token_of_the_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    found, tokenizer = read_bert_vocabulary(tmp_path / "vocab.txt"), Tokenizer.load(tmp_path / "vocab.txt")
    assert [TOKENS[row] for row in found.rows] == [
        "[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "[CLS]", "[SEP]", "[unused0]", "cat", "##s"
    ]  # fmt: skip
    assert len(found.rows) == len(tokenizer)
    cat, plural, unknown = tokenizer.encode("Cats dog")
    assert [TOKENS[found.rows[token]] for token in (cat, plural, unknown)] == ["cat", "##s", "[UNK]"]
    assert unknown == SPECIALS.index("<unk>")
    assert tokenizer.decode([cat, plural]) == "cats"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("vocab.txt", "[PAD]\ncat\n", r"without \[CLS\], \[MASK\], \[SEP\], \[UNK\]"),
        ("vocab.txt", "\n".join([*TOKENS, "cat"]), "with a token twice"),
        ("tokenizer.json", fast_tokenizer(type="BPE"), "BPE with BertNormalizer, not the WordPiece of a BERT"),
        ("tokenizer.json", fast_tokenizer(vocab={"a": 5}), "have gaps"),
        ("tokenizer.json", '{"model": 1}', "not a tokenizer of a BERT"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=says):
        Tokenizer.load(tmp_path / name)
