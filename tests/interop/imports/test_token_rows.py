"""Tokens of foreign models: the same tokens as the tokenizers library gives, in the rows of the foreign tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Pipeline
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from lamina.data.tokenizer import BOS, EOS, SPECIALS, UNK, Tokenizer
from lamina.errors import UserError
from lamina.interop.imports.token_rows import IDS_AS_TEXT, NEVER, read_token_rows, words_of

TEXTS = [
    "The cat sat on the mat.",
    "  two  spaces, and Ünïcödé 中文 🙂",
    "<|endoftext|> is <s> text",
    "the cats' mat",
    "x",
]


def gpt2_like() -> Pipeline:
    """Byte-level BPE with an end token, as GPT-2 has."""
    pipeline = Pipeline(models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"]
    )
    pipeline.train_from_iterator(TEXTS * 3, trainer)
    return pipeline


def llama_like() -> Pipeline:
    """BPE over characters with bytes for unknown ones, as Llama 2 has."""
    marks = ["<unk>", "<s>", "</s>"]
    pipeline = Pipeline(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    pipeline.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=[*marks, *(f"<0x{byte:02X}>" for byte in range(256))])
    pipeline.train_from_iterator(["the cat sat on the mat", "the mat"], trainer)
    pipeline.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    content = json.loads(pipeline.to_str())
    content["added_tokens"] = [each for each in content["added_tokens"] if each["content"] in marks]
    return Pipeline.from_str(json.dumps(content))


def unigram_like() -> Pipeline:
    """SentencePiece's unigram model, as T5 and Marian have, with the padding token as the last one."""
    pipeline = Pipeline(models.Unigram())
    pipeline.pre_tokenizer = pre_tokenizers.Metaspace()
    pipeline.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=60, unk_token="<unk>", special_tokens=["</s>", "<unk>"])
    pipeline.train_from_iterator(TEXTS * 5, trainer)
    pipeline.add_special_tokens(["<pad>"])
    return pipeline


@pytest.mark.parametrize("make", [gpt2_like, llama_like, unigram_like])
def test_the_same_tokens_and_texts(make: object, tmp_path: Path) -> None:
    pipeline: Pipeline = make()  # type: ignore[operator]
    pipeline.save(str(tmp_path / "tokenizer.json"))
    size = pipeline.get_vocab_size()
    special = {"gpt2_like": "<|endoftext|>", "llama_like": "</s>", "unigram_like": "</s>"}[make.__name__]  # type: ignore[attr-defined]
    end = pipeline.token_to_id(special)
    rows, notes = read_token_rows(tmp_path, size, {EOS: end}, {EOS: end})
    assert notes == []
    assert rows.read[EOS] == rows.predicted[EOS] == end
    stored = tmp_path / "own.json"
    rows.tokenizer.save(stored)
    tokenizer = Tokenizer.load(stored)
    assert tokenizer.sha256 == rows.tokenizer.sha256
    for text in TEXTS:
        theirs = pipeline.encode(text, add_special_tokens=False).ids
        if special in text or "<s>" in text:  # which is ordinary text here
            assert EOS not in tokenizer.encode(text)
            continue
        ours = tokenizer.encode(text)
        assert [rows.read[each] for each in ours] == theirs
        assert tokenizer.decode(ours) == pipeline.decode(theirs, skip_special_tokens=False)


def test_ids_are_the_text_without_a_tokenizer(tmp_path: Path) -> None:
    rows, notes = read_token_rows(tmp_path, 10, {EOS: 2, BOS: 1}, {EOS: 2})
    assert notes == [IDS_AS_TEXT]
    assert [rows.read[each] for each in rows.tokenizer.encode("7 0 9")] == [7, 0, 9]
    assert rows.tokenizer.encode("2 seven") == [UNK, UNK]  # the end is no text


def test_rows_without_a_token_are_counted(tmp_path: Path) -> None:
    pipeline = gpt2_like()
    pipeline.save(str(tmp_path / "tokenizer.json"))
    size = pipeline.get_vocab_size()
    _, notes = read_token_rows(tmp_path, size + 5, {EOS: 0}, {EOS: 0})
    assert notes == ["5 rows of the tables have no token in tokenizer.json and are left out"]
    with pytest.raises(UserError, match=f"has the id {size - 1}, but the model only {size - 1} tokens"):
        read_token_rows(tmp_path, size - 1, {EOS: 0}, {EOS: 0})


def test_tables_and_bias_by_row() -> None:
    rows = words_of(["<s>", "</s>", "a", "b"], 2, {BOS: 0, EOS: 1}, {EOS: 1})
    table = torch.arange(4.0).unsqueeze(1) + 1
    assert rows.embedding(table).squeeze(1).tolist() == [0, 1, 2, 0, 0, 0, 0, 3, 4]
    assert rows.output(table).squeeze(1).tolist() == [0, 0, 2, 0, 0, 0, 0, 3, 4]
    assert rows.bias(torch.tensor([5.0, 6, 7, 8])).tolist() == [NEVER, NEVER, 6, NEVER, NEVER, NEVER, NEVER, 7, 8]
    assert rows.can_share
    assert not words_of(["<s>", "</s>", "a"], 2, {EOS: 0}, {EOS: 1}).can_share
    assert len(rows.read) == len(SPECIALS) + 2


@pytest.mark.parametrize("content", ["{", "[]", '{"a": "b"}', '{"a": 1, "b": 1}'])
def test_a_damaged_vocabulary_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(content)
    with pytest.raises(UserError, match=r"vocab\.json: "):
        read_token_rows(tmp_path, 10, {}, {}, vocabulary="vocab.json")
