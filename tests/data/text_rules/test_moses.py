"""Moses' words: sacremoses' own, one clear error without it, and `bleu-tok` of text that was prepared with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import sacremoses

from lamina.data.catalogue import SOURCES
from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.store import Store
from lamina.data.text_rules import moses
from lamina.data.text_rules.moses import tokenise_words
from lamina.data.tokenizer import Tokenizer
from lamina.errors import UserError
from lamina.tasks import build_task
from lamina.tasks.translation import Translation

GERMAN = ["Das ist z. B. Dr. Müllers »Haus« (3,5 km)...", "Ich hab's gesehen, oder?", "Am 3. Mai & danach: 10 %."]
ENGLISH = ['That is Dr. Miller\'s "house" (3.5 km)...', "I've seen it, haven't I?", "On May 3rd & after: 10%."]
MOSES = {"source": "de", "target": "en"}


def own_words(texts: list[str], language: str, **options: Any) -> list[str]:
    tokeniser = sacremoses.MosesTokenizer(lang=language)
    return [tokeniser.tokenize(text, return_str=True, **options) for text in texts]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return prepare(options_for(tmp_path))


def options_for(folder: Path, **tokenizer: Any) -> PrepareOptions:
    for name, lines in (("text.de", GERMAN), ("text.en", ENGLISH)):
        (folder / name).write_text("\n".join(lines) + "\n")
    files = {split: ["text.de", "text.en"] for split in ("train", "valid")}
    own = {"size": 320, "lower_case": True, "moses": MOSES} | tokenizer
    return PrepareOptions.read({"folder": str(folder), "output": str(folder / "store"), **files, "tokenizer": own}, "x")


@pytest.mark.parametrize(("language", "texts"), [("de", GERMAN), ("en", ENGLISH)])
def test_words_are_those_of_sacremoses(language: str, texts: list[str]) -> None:
    found = tokenise_words(texts, language)
    assert found == own_words(texts, language, escape=False)
    entities = {"&amp;": "&", "&apos;": "'", "&quot;": '"'}
    escaped = own_words(texts, language)
    assert any("&" in text for text in escaped)
    for entity, sign in entities.items():
        escaped = [text.replace(entity, sign) for text in escaped]
    assert found == escaped, "the script's words, with entities written as signs"


def test_the_store_has_the_lower_cased_words_of_each_language_in_one_vocabulary(store: Store) -> None:
    assert store.manifest.tokenizers["source"] == store.manifest.tokenizers["target"]
    for field, texts, language in (("source", GERMAN, "de"), ("target", ENGLISH, "en")):
        wanted = [text.lower() for text in own_words(texts, language, escape=False)]
        tokenizer, examples = store.tokenizer(field), store["train"]
        stored = [tokenizer.decode(examples.gather(field, [at])[0]) for at in range(len(texts))]
        assert stored == wanted
        assert tokenizer.decode_batch(tokenizer.encode_batch(texts)) == wanted, "text that a user types"


def test_units_are_parts_of_words(store: Store) -> None:
    tokenizer = store.tokenizer("target")
    whole = [tokenizer.decode(tokens) for tokens in tokenizer.encode_batch(ENGLISH)]
    for text, tokens in zip(whole, tokenizer.encode_batch(ENGLISH), strict=True):
        units = [tokenizer.decode([token]) for token in tokens]
        assert "".join(units) == text
        assert not any(" " in unit.strip() for unit in units)
    learnt = {tokenizer.decode([token]) for token in range(len(tokenizer))}
    assert any(unit.strip() in {"'t", "..."} for unit in learnt), "punctuation and letters may share a unit"


def test_bleu_tok_is_sacrebleus_number_on_moses_words(store: Store) -> None:
    task = build_task("translation", store, {"bleu": "bleu-tok"})
    assert isinstance(task, Translation)
    guessed = ["That is Dr. Miller's big house (3.5 km)...", "I have seen it, haven't I?", "On May 3rd & later: 10%."]
    tokenizer = store.tokenizer("target")
    hypotheses, references = (tokenizer.decode_batch(tokenizer.encode_batch(each)) for each in (guessed, ENGLISH))
    words = [[text.lower() for text in own_words(each, "en", escape=False)] for each in (guessed, ENGLISH)]
    wanted = sacrebleu.corpus_bleu(words[0], [words[1]], tokenize="none", force=True).score
    escaped = [[text.lower() for text in own_words(each, "en")] for each in (guessed, ENGLISH)]
    assert 30 < wanted < 90
    assert task.score(hypotheses, references)["bleu"] == pytest.approx(wanted, rel=1e-12)
    assert wanted == sacrebleu.corpus_bleu(escaped[0], [escaped[1]], tokenize="none", force=True).score
    assert "tok:none" in task.signatures()["bleu"]


def test_a_tokenizer_file_keeps_the_rules(store: Store, tmp_path: Path) -> None:
    file = store.folder / "tokenizer.json"
    again = Tokenizer.load(file)
    assert again.moses == MOSES
    assert again.json == file.read_text()
    reused = prepare(options_for(tmp_path, file=str(file)).model_copy(update={"output": str(tmp_path / "other")}))
    assert reused.tokenizer("source").encode(GERMAN[0]) == store.tokenizer("source").encode(GERMAN[0])
    with pytest.raises(UserError, match="the language of 'text' is missing; it has source, target"):
        again.for_field("text")


@pytest.fixture
def no_sacremoses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    moses._tokeniser.cache_clear()


@pytest.mark.usefixtures("no_sacremoses")
def test_without_the_extra_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer.moses needs sacremoses; install it with .*lamina\[moses\]"):
        prepare(options_for(tmp_path))
    assert not (tmp_path / "store").exists()
    assert len(prepare(options_for(tmp_path, moses={}))["train"]) == 3


def test_a_language_without_rules_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tokenizer.moses: unknown language 'xx'"):
        prepare(options_for(tmp_path, moses={"source": "xx", "target": "en"}))
    with pytest.raises(UserError, match="the language of 'target' is missing"):
        prepare(options_for(tmp_path, moses={"source": "de"}))


def test_the_papers_data_is_prepared_as_they_do() -> None:
    tokenizer = SOURCES["iwslt14-de-en"].options["tokenizer"]
    assert tokenizer == {"size": 10_000, "lower_case": True, "moses": {"source": "de", "target": "en"}}
