"""tokenizer.json: the same token ids as Lamina's own tokenizer, for every kind of it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from lamina.data.tokenizer import Tokenizer
from lamina.data.vocabulary import LearntKind, LearntVocabulary, VocabularyOptions

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")

from lamina.interop.auto_models.tokenizer import (  # noqa: E402
    MASKED_SENTENCES,
    SENTENCES,
    SOURCE,
    library_tokenizer,
    special_names,
)

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "ünïcödé, CAPITALS and   spaces",
    "  edges  ",
    "<pad> <eos>, a<bos>b <mask> <unk> </s> ##x",
    "日本語 ☃ ▁",
]
SIZES = {"bpe": 300, "wordpiece": 560, "unigram": 90, "word": 0, "character": 0}


def trained(kind: Any, **options: Any) -> Tokenizer:
    chosen = VocabularyOptions.read({"kind": kind, "size": SIZES[kind], **options}, where="test")
    return Tokenizer.train(TEXTS[:2] * 3, chosen)


@pytest.mark.parametrize("lower_case", [False, True])
@pytest.mark.parametrize("kind", get_args(LearntKind))
def test_ids_and_text_are_the_same(kind: str, lower_case: bool) -> None:
    own = trained(kind, lower_case=lower_case)
    library = library_tokenizer(own, SOURCE)
    assert len(library) == len(own)
    for text in TEXTS:
        ids = own.encode(text.strip())
        assert library(text)["input_ids"] == [*ids, 2], text
        assert library.decode(ids, skip_special_tokens=True) == own.decode(ids), text


def test_pairs_have_segments() -> None:
    own = trained("bpe")
    found = library_tokenizer(own, SENTENCES)("fox", "dog")
    first, second = own.encode("fox"), own.encode("dog")
    assert found["input_ids"] == [5, *first, 6, *second, 6]
    assert found["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_a_mask_can_be_written_where_the_model_needs_it() -> None:
    own = trained("word")
    assert 4 in library_tokenizer(own, MASKED_SENTENCES)("the <mask> fox")["input_ids"]
    assert 4 not in library_tokenizer(own, SENTENCES)("the <mask> fox")["input_ids"]


def test_language_tags_can_be_written() -> None:
    own = Tokenizer("bpe", trained("bpe").vocabulary, languages=("de",))
    assert library_tokenizer(own, SOURCE)("<2de>fox")["input_ids"] == [own.tag("de"), *own.encode("fox"), 2]


def test_a_special_token_never_shares_a_name_with_a_word() -> None:
    own = Tokenizer("word", LearntVocabulary(["<unk>", "<pad>", "fox", "<<eos>>", "<eos>"]))
    assert special_names(own, MASKED_SENTENCES)[:4] == ["<<pad>>", "<bos>", "<<<eos>>>", "<unk>"]
    assert special_names(own, SOURCE)[:4] == ["<pad >", "<bos >", "<eos >", "<unk>"]
    library = library_tokenizer(own, SOURCE)
    assert library("<pad> fox <eos> <bos>")["input_ids"] == [*own.encode("<pad> fox <eos> <bos>"), 2]


def test_the_limit_of_learned_positions_is_known() -> None:
    assert library_tokenizer(trained("bpe"), SOURCE, 64).model_max_length == 64
