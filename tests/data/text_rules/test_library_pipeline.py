"""The pipeline of a tokenizer.json: what it keeps, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from lamina.data.text_rules.library_pipeline import UnusablePipeline, build_library_pipeline, read_library_tokenizer
from lamina.data.tokenizer import Tokenizer as OwnTokenizer
from lamina.data.vocabulary import LearntVocabulary
from lamina.errors import UserError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pipeline = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2, "[END]": 3}, "[UNK]"))
    pipeline.pre_tokenizer = pre_tokenizers.Whitespace()
    pipeline.add_special_tokens(["[END]", "[NEW]"])
    pipeline.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_special_tokens_are_left_out(file: Path) -> None:
    found = read_library_tokenizer(file)
    assert found.tokens == {0: "a", 1: "b", 2: "[UNK]", 3: "[END]", 4: "[NEW]"}
    ids, vocabulary = found.without({3, 4})
    assert ids == [0, 1]
    assert vocabulary.tokens == ["[UNK]", "a", "b"]
    assert build_library_pipeline(vocabulary).encode("b a c").ids == [2, 1, 0]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": {"type": "BPE"}}', '{"model": {"vocab": 3}}'])
def test_a_file_that_is_no_tokenizer(content: str, file: Path) -> None:
    file.write_text(content)
    with pytest.raises(UserError, match=r"tokenizer\.json: not a tokenizer\.json of the tokenizers library"):
        read_library_tokenizer(file)


def test_a_pipeline_that_cannot_be_built(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusablePipeline):
        build_library_pipeline(LearntVocabulary(["<unk>", "a"], pipeline='{"model": {"type": "Nonsense"}}'))
    _, vocabulary = read_library_tokenizer(file).without({3, 4})
    stored = tmp_path / "own.json"
    OwnTokenizer("imported", vocabulary).save(stored)
    content = json.loads(stored.read_text())
    stored.write_text(json.dumps(content | {"pipeline": "{}"}))
    with pytest.raises(UserError, match=r"own\.json: the pipeline of the imported tokenizer cannot be built"):
        OwnTokenizer.load(stored)
    stored.write_text(json.dumps(content | {"kind": "word"}))
    with pytest.raises(UserError, match=r"own\.json: only an imported tokenizer has the pipeline"):
        OwnTokenizer.load(stored)
