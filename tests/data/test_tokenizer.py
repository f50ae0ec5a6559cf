"""Tokenizers: exact round trips, special tokens that text cannot spell, the same vocabulary every time."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.tokenizer import BOS, EOS, PAD, SPECIALS, UNK, Tokenizer
from lamina.data.vocabulary import TokenizerKind, build_pipeline
from lamina.errors import UserError
from support.small_tokenizers import CORPUS, train

BPE = train(languages=("de", "en"))


WORDPIECE = train("wordpiece")


def random_text(generator: random.Random) -> str:
    """Any scalar values: letters of all planes, controls, combining marks, and what looks like special tokens."""
    pieces = []
    for _ in range(generator.randrange(12)):
        choice = generator.randrange(6)
        if choice == 0:
            pieces.append(generator.choice([*SPECIALS, "<2de>", "##", "Ġ", "\r", "\n", "\0", "\u2028", "  ", "\ufeff"]))
        else:
            top = (0x80, 0x800, 0x3000, 0x10000, 0x110000)[choice - 1]
            codes = (generator.randrange(top) for _ in range(generator.randrange(8)))
            pieces.append("".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000))
    return "".join(pieces)


def test_ten_thousand_strings_come_back_exactly() -> None:
    generator = random.Random(3)
    texts = [random_text(generator) for _ in range(10_000)]
    assert len(set(texts)) > 8_000
    encoded = BPE.encode_batch(texts)
    assert BPE.decode_batch(encoded) == texts
    first_text = len(SPECIALS) + len(BPE.languages)
    assert min(int(tokens.min()) for tokens in encoded if len(tokens)) >= first_text
    assert max(int(tokens.max()) for tokens in encoded if len(tokens)) < len(BPE)


@given(st.text())
def test_any_string_comes_back_exactly(text: str) -> None:
    assert BPE.decode(BPE.encode(text)) == text


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word"])
def test_special_tokens_spelled_in_text_are_text(kind: TokenizerKind) -> None:
    tokenizer = train(kind, languages=("de",))
    spelled = "<eos> <pad> <2de>"
    tokens = tokenizer.encode(spelled)
    assert min(tokens) >= len(SPECIALS) + 1
    assert tokenizer.decode(tokens).replace(" ", "") == spelled.replace(" ", "")
    assert tokenizer.decode([BOS, *tokens, EOS, PAD, tokenizer.tag("de")]) == tokenizer.decode(tokens)


def test_numbers_of_special_tokens_and_tags() -> None:
    assert [BPE.name(number) for number in range(9)] == [*SPECIALS, "<2de>", "<2en>"]
    assert (BPE.tag("de"), BPE.tag("en")) == (7, 8)
    with pytest.raises(UserError, match="unknown language 'dee'; did you mean 'de'"):
        BPE.tag("dee")
    with pytest.raises(UserError, match="token 9999"):
        BPE.name(9999)


@settings(max_examples=200)
@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\ufffd")))
def test_nothing_is_unknown_to_wordpiece(text: str) -> None:
    tokens = WORDPIECE.encode(text)
    assert UNK not in tokens
    assert "".join(WORDPIECE.decode(tokens).split()) == "".join(text.split())


def test_wordpiece_splits_very_long_words_between_characters() -> None:
    word = "ก" * 333
    assert WORDPIECE.decode(WORDPIECE.encode(word)).replace(" ", "") == word


def test_lower_case() -> None:
    assert train(lower_case=True).decode(train(lower_case=True).encode("ÜBER Straße")) == "über straße"
    uncased = train("wordpiece", lower_case=True)
    assert uncased.decode(uncased.encode("ÜBER die Brücke")) == "uber die brucke"


def test_words_have_unknowns_and_wikitext_spells_them() -> None:
    words = train("word", size=0)
    assert words.decode(words.encode("The  dog unheard of <unk>")) == "The dog <unk> <unk> <unk>"
    assert words.encode("unheard")[0] == UNK == words.encode("<unk>")[0]
    distinct = {word for line in CORPUS for word in line.split()} - {"<unk>"}
    assert len(words) == len(SPECIALS) + len(distinct)
    assert len(train("word", size=20)) == 20


UNIGRAM = train("unigram", size=200)
LETTERS = sorted({letter for line in CORPUS for letter in line})


@given(st.text(LETTERS).map(str.strip))
def test_known_characters_come_back_from_unigram_exactly(text: str) -> None:
    tokens = UNIGRAM.encode(text)
    assert UNK not in tokens
    assert UNIGRAM.decode(tokens) == text


def test_unigram_has_unknown_characters() -> None:
    assert UNIGRAM.decode(UNIGRAM.encode("The dog ☃☃ runs")) == "The dog <unk> runs"
    assert UNIGRAM.encode("☃").count(UNK) == 1
    assert UNK not in UNIGRAM.encode("<unk>"), "the characters of <unk> are known, so that it is ordinary text"
    assert UNIGRAM.decode(UNIGRAM.encode("<unk> spelled")) == "<unk> spelled"


def test_unigram_pieces_are_those_of_the_library() -> None:
    """The most probable segmentation under the stored scores, by the library's own model."""
    pipeline = build_pipeline("unigram", False, UNIGRAM.vocabulary)
    assert [UNIGRAM.name(token) for token in UNIGRAM.encode("The dog runs")] == [
        piece.replace("▁", "") for piece in pipeline.encode("The dog runs").tokens
    ]
    assert len(UNIGRAM.encode(CORPUS[1])) < len(CORPUS[1]), "some pieces are longer than a character"


def test_scores_that_do_not_fit_the_vocabulary_are_refused(tmp_path: Path) -> None:
    content = json.loads(UNIGRAM.json)
    for scores in (content["scores"][1:], []):
        (tmp_path / "tokenizer.json").write_text(json.dumps(content | {"scores": scores}))
        with pytest.raises(UserError, match=f"{len(scores)} scores do not fit the vocabulary"):
            Tokenizer.load(tmp_path / "tokenizer.json")


def test_empty_input() -> None:
    assert BPE.encode("") == []
    assert BPE.decode([]) == ""
    assert BPE.encode_batch([]) == []
    flat, lengths = BPE.encode_flat(["", "a", ""])
    assert lengths.tolist() == [0, 1, 0]
    assert flat.dtype == np.int64


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "word"])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, kind: TokenizerKind) -> None:
    tokenizer = train(kind, lower_case=True, languages=("de",))
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = Tokenizer.load(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == tokenizer.sha256 == loaded.sha256
    assert loaded.encode(CORPUS[0]) == tokenizer.encode(CORPUS[0])
    assert (loaded.kind, loaded.lower_case, loaded.languages, len(loaded)) == (kind, True, ("de",), len(tokenizer))
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    good = json.loads(BPE.json)
    bad: list[tuple[object, str]] = [
        ([], "not a Lamina tokenizer"),
        ({"model": {}}, "not a Lamina tokenizer"),
        ({**good, "version": 2}, "version 1"),
        ({**good, "kind": "bpee"}, "kind"),
        ({**good, "extra": 1}, "unknown option 'extra'"),
        ({**good, "vocabulary": [*good["vocabulary"], good["vocabulary"][0]]}, "has a token twice"),
        ({**good, "vocabulary": []}, "empty"),
        ({**good, "merges": [["never", "seen"]]}, "uses a token that is not in the vocabulary"),
    ]
    for content, complaint in bad:
        path.write_text(json.dumps(content))
        with pytest.raises(UserError, match=complaint):
            Tokenizer.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not a Lamina tokenizer"):
        Tokenizer.load(path)
    with pytest.raises(UserError, match="no such tokenizer"):
        Tokenizer.load(tmp_path / "none.json")
