"""Every TOML file of docs/your-data.md is prepared and trained on, from small files that the tests write."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from pathlib import Path

import pytest

from lamina.config import read_values
from lamina.data.prepare import prepare
from lamina.data.readers import READERS
from lamina.data.sources import chosen_options
from lamina.runs.run import Run
from lamina.tasks import build_task
from lamina.training.config import RunConfig
from lamina.training.config_template import write_template
from support.speech_files import archive, flac, librispeech, tone

DOCUMENT = Path(__file__).parents[1] / "docs" / "your-data.md"
CONFIGS = dict(re.findall(r"^```toml\n# ([\w-]+)\.toml\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL))
TASKS = {
    "parallel": "translation",
    "tsv": "classification",
    "jsonl": "summarisation",
    "plain": "language-modelling",
    "glue": "classification",
    "librispeech": "speech-recognition",
    "speech-archive": "speech-recognition",
    "recordings": "speech-recognition",
}
WORDS = ("one", "two", "three", "four", "five", "six", "seven")


def sentence(number: int) -> str:
    return " ".join(WORDS[(number * step) % 7] for step in range(2, 6)) + f" {number}."


def write_files(name: str) -> None:
    """Small files in the working directory, with the names that the document has."""
    lines = [sentence(number) for number in range(80)]
    files: dict[str, list[str]] = {}
    for split in ("train", "valid", "test"):
        files |= {f"{split}.de": lines, f"{split}.en": [line.upper() for line in lines]}
        rows = [{"article": {"body": f"{line} {line}"}, "headline": line} for line in lines]
        files[f"{split}.jsonl"] = [json.dumps(row) for row in rows]
    files["reviews.tsv"] = ["review\tid\tverdict"]
    files["reviews.tsv"] += [f"{line}\t{at}\t{('negative', 'positive')[at % 2]}" for at, line in enumerate(lines)]
    files["book.txt"] = files["second-book.txt"] = [text for line in lines for text in (line, line, "")]
    if name == "glue":
        labels = ("entailment", "not_entailment")
        pairs = [f"{at}\t{line}\t{line}\t{labels[at % 2]}" for at, line in enumerate(lines)]
        files |= dict.fromkeys(("train.tsv", "dev.tsv"), ["index\tsentence1\tsentence2\tlabel", *pairs])
    if TASKS[name] == "speech-recognition":
        write_recordings()
    for file, content in files.items():
        Path(file).write_text("\n".join(content) + "\n")


def write_recordings() -> None:
    """The same recordings in each of the three formats."""
    texts = {f"s1-c1-{number:04d}": f"{WORDS[number % 7]} {WORDS[number % 5]}".upper() for number in range(22)}
    sounds = {name: flac(tone(200.0 + 10 * number)) for number, name in enumerate(texts)}
    Path("LibriSpeech").mkdir()
    for split in ("train-clean-100", "dev-clean", "test-clean"):
        librispeech(Path("made") / split, sounds, texts).rename(Path("LibriSpeech") / split)
    names = list(texts)
    archive(Path("first.tar"), {name: sounds[name] for name in names[:11]})
    archive(Path("second.tar"), {name: sounds[name] for name in names[11:]})
    Path("transcripts.txt").write_text("".join(f"{name} {text}\n" for name, text in texts.items()))
    rows = [f"LibriSpeech/dev-clean/s1/c1/{name}.flac\t{text}\n" for name, text in texts.items()]
    Path("recordings.tsv").write_text("path\ttext\n" + "".join(rows))


def test_the_document_has_a_file_for_each_format() -> None:
    assert CONFIGS.keys() == TASKS.keys()
    formats = {tomllib.loads(text)["format"] for text in CONFIGS.values()}
    assert formats == {name for name in READERS if READERS[name].reads_files} - {"wikitext", "hub"}


@pytest.mark.parametrize("name", TASKS)
def test_it_is_prepared_and_trained_on(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(name)
    Path(f"{name}.toml").write_text(CONFIGS[name])
    store = prepare(chosen_options(f"{name}.toml", [], {}))
    assert store.folder.samefile("data/own")
    assert {"train", "valid"} <= set(store.splits)
    file = write_template(TASKS[name], "own.toml")
    short = ["data.store=data/own", "train.steps=2", "train.validate_every=0", "model.model_dim=16"]
    run = Run(RunConfig.read(read_values(file, short), where="test"), "runs/own")
    assert run.train(quiet=True).step == 2
    assert run.evaluate().scores["valid"]["nll"] > 0
    if TASKS[name] == "classification":
        text = sentence(3) if name == "tsv" else (sentence(3), sentence(4))
        [found] = run.predict([text])
        assert found is not None
        assert found.label in store.labels


def test_the_language_pairs_of_the_multilingual_page_are_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An English sentence is in the same split in every pair."""
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.with_name("multilingual.md").read_text()
    found = dict(re.findall(r"^```toml\n# ([\w-]+)\.toml, .*?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    Path("tatoeba.toml").write_text(found["tatoeba"])
    Path("data").mkdir()
    english = [sentence(number) for number in range(2000)]
    for pair in ("de-en", "es-en", "fr-en", "nl-en"):
        rows = "".join(f"{pair} {line.upper()}\t{line}\n" for line in english)
        Path("data", f"{pair}.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    store = prepare(chosen_options("tatoeba.toml", ["tokenizer.size=400"], {}))
    counts = {split: {len(store[name]) for name in store.sets(split)} for split in ("train", "valid", "test")}
    assert all(len(each) == 1 for each in counts.values()), "the same sentences in every pair"
    Path("run.toml").write_text(found["tatoeba-run"])
    config = RunConfig.read(read_values("run.toml", ["train.steps=1", "train.samples=0"]), where="test")
    task = build_task(config.task, store, config.task_options)
    assert [row.name for row in task.metric_tables()[0].rows] == ["de", "es", "fr", "nl"]
