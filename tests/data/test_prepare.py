"""`lamina prepare` from end to end: pairs stay aligned, dropped examples are counted, changes are detected."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import types
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lamina.data.prepare import PrepareOptions, list_notices, prepare, summarise
from lamina.data.readers.base import EDGE_SPACE
from lamina.data.store import Store
from lamina.data.tokenizer import Tokenizer
from lamina.data.vocabulary import VocabularyOptions
from lamina.errors import UserError
from lamina.files.text_lines import BYTE_ORDER_MARK, CARRIAGE_RETURN
from support.small_corpora import WORDS, options, parallel, sentences, texts, write

SPLITS = ("train", "valid", "test")


def test_parallel_text_is_stored_pair_by_pair(tmp_path: Path) -> None:
    files = parallel(tmp_path)
    write(tmp_path, "valid.s", ["a", "", "c", "d"])
    write(tmp_path, "valid.t", ["A", "B", "  ", "D"])
    store = prepare(options(tmp_path, **files, valid=["valid.s", "valid.t"]))
    source, target = texts(store, "train", "source"), texts(store, "train", "target")
    assert len(source) == len(target) == 200
    assert all(
        s.split()[0][1:] == t.split()[0][1:] == str(n) for n, (s, t) in enumerate(zip(source, target, strict=True))
    )
    assert (texts(store, "valid", "source"), texts(store, "valid", "target")) == (["a", "d"], ["A", "D"])
    summary = summarise(store)
    assert summary["vocabulary"] == {"source": 400, "target": 400}
    assert summary["splits"]["valid"]["dropped"] == {"empty": 2}
    assert store.dropped()["valid"] == {"empty": {str(tmp_path / "valid.s"): [2, 3]}}
    record = summary["splits"]["train"]["fields"]["source"]
    assert record["words"] == sum(len(text.split()) for text in source)
    assert record["characters"] == sum(map(len, source))
    assert record["tokens"] == sum(len(store.tokenizer().encode(text)) for text in source)
    assert (record["truncated"], record["dtype"]) == (0, "uint16")
    assert json.loads(json.dumps(summary)) == summary


def test_only_training_data_is_filtered_by_length(tmp_path: Path) -> None:
    long = "the dog runs under the blue house again and again and again"
    for split in SPLITS:
        write(tmp_path, f"{split}.s", [f"{split} dog", f"{split} {long}"])
        write(tmp_path, f"{split}.t", [f"{split} cat", f"{split} cat runs"])
    files = {split: [f"{split}.s", f"{split}.t"] for split in SPLITS}
    for over_long in ("skip", "truncate"):
        given = options(tmp_path, **files, max_length=9, over_long=over_long, replace=True)
        store = prepare(given)
        assert len(store["train"]) == (1 if over_long == "skip" else 2)
        assert store["train"].lengths("source").max() <= 9
        for split in ("valid", "test"):
            assert texts(store, split, "source") == [f"{split} dog", f"{split} {long}"]
            assert store.manifest.splits[split].dropped == {}


def test_overlap_equal_sides_and_a_small_vocabulary_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "train.s", ["a dog", "a cat", "seven", "a dog", "the house"])
    write(tmp_path, "train.t", ["ein Hund", "eine Katze", "seven", "ein Hund", "das Haus"])
    write(tmp_path, "valid.s", ["a dog ", "the river", "a dog", "a cat"])
    write(tmp_path, "valid.t", ["ein Hund", "der Fluss", "ein Hund", "Katze"])
    store = prepare(options(tmp_path, train=["train.s", "train.t"], valid=["valid.s", "valid.t"]))
    first, second, third = list_notices(store)
    assert first == "train: source and target are the same text in 1 of 5 examples."
    assert second == "valid: 2 of 4 examples are also in train."
    assert f"has {len(store.tokenizer())} tokens, fewer than tokenizer.size = 400" in third
    clean = options(tmp_path, **parallel(tmp_path), output=str(tmp_path / "clean"))
    assert list_notices(prepare(clean)) == []


def test_labels_are_found_in_the_data(tmp_path: Path) -> None:
    columns = {"first": 1, "second": 2, "label": 3}
    write(tmp_path, "train.tsv", ["dog\tcat\t10", "cat\tdog\t2", "blue\tred\t0"])
    write(tmp_path, "valid.tsv", ["dog\tdog\t2"])
    chosen = options(tmp_path, format="tsv", train="train.tsv", valid="valid.tsv", columns=columns)
    store = prepare(chosen)
    assert store.labels == ("0", "2", "10")
    assert store["train"].gather("label", np.arange(3))[0].tolist() == [2, 1, 0]
    write(tmp_path, "valid.tsv", ["dog\tdog\tother"])
    with pytest.raises(UserError, match=r"valid.tsv, line 1: label 'other' is not in the set \['0', '2', '10'\]"):
        prepare(options(tmp_path, **chosen.model_dump(exclude={"output", "folder", "tokenizer"}) | {"replace": True}))
    header = "sentence1\tsentence2\tlabel"
    write(tmp_path, "glue.tsv", [header, "a\tb\tneutral", "c\td\tentailment", "e\tf\tcontradiction"])
    glue = options(tmp_path, format="glue", train="glue.tsv", output=str(tmp_path / "glue"))
    assert prepare(glue).labels == ("contradiction", "entailment", "neutral")


TOKENIZER = Tokenizer.train([*sentences(300), "0 1 2 3 4 5 6 7 8 9"], VocabularyOptions(size=400))


ODD = ["\u2028", "\x0b", "\x85", "\x1c", "\r", "\ufeff", "<eos>", "\u200b", "é", "\U0001f600"]


@dataclass
class Couple:
    """Two files with faults, and the pairs that must result from them."""

    source: list[bytes] = field(default_factory=list)
    target: list[bytes] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    complaint: str = ""


def make_line(generator: random.Random, mark: str, number: int) -> str:
    words = [f"{mark}{number}", *generator.choices(WORDS, k=generator.randrange(1, 5))]
    if generator.random() < 0.3:
        words.insert(generator.randrange(1, len(words) + 1), generator.choice(ODD))
    return " ".join(words)


def make_couple(generator: random.Random, max_length: int) -> Couple:
    couple = Couple()
    for number in range(generator.randrange(1, 12)):
        pair = [make_line(generator, mark, number) for mark in "st"]
        if generator.random() < 0.1:
            pair[generator.randrange(2)] = generator.choice(["", "  ", "\u2028", "\t"])
        pair = [text + "\r" * (generator.random() < 0.1) for text in pair]
        read = [text.removesuffix("\r") for text in pair]
        couple.repaired[CARRIAGE_RETURN] += sum(text != line for text, line in zip(read, pair, strict=True))
        if all(text.strip() for text in read):
            couple.repaired[EDGE_SPACE] += sum(text != text.strip() for text in read)
        if not all(text.strip() for text in read):
            couple.dropped["empty"] += 1
        elif max_length and any(len(TOKENIZER.encode(text.strip())) > max_length for text in read):
            couple.dropped["over-long"] += 1
        else:
            couple.kept.append(number)
        raw = [text.encode() for text in pair]
        if generator.random() < 0.03 and not couple.complaint:
            side = generator.randrange(2)
            raw[side] += generator.choice([b"\xff", b"\0", b"\xed\xa0\x80", b"\xc3"])
            couple.complaint = rf"{'st'[side]}\.txt(\.gz)?, line {number + 1}: "
        couple.source.append(raw[0])
        couple.target.append(raw[1])
    if generator.random() < 0.05:
        generator.choice([couple.source, couple.target]).append(b"one line more")
        couple.complaint = rf"s\.txt(\.gz)? has {len(couple.source)} lines but .*t\.txt(\.gz)? has {len(couple.target)}"
    if generator.random() < 0.02:
        couple.target.clear()
        couple.complaint = r"t\.txt(\.gz)?: the file is empty"
    return couple


def write_couple(folder: Path, couple: Couple, generator: random.Random) -> list[str]:
    names = []
    for mark, lines in (("s", couple.source), ("t", couple.target)):
        # An empty last line is only there when a line end follows it.
        ends = bool(lines) and (generator.random() < 0.8 or not lines[-1])
        raw = b"\n".join(lines) + b"\n" * ends
        if generator.random() < 0.1 and lines:
            raw = b"\xef\xbb\xbf" + raw
            couple.repaired[BYTE_ORDER_MARK] += 1
        names.append(f"{mark}.txt" + ".gz" * (generator.random() < 0.3))
        (folder / names[-1]).write_bytes(gzip.compress(raw, 1) if names[-1].endswith(".gz") else raw)
    return names


def test_a_thousand_faulty_couples_and_no_shifted_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # durability is tested elsewhere, and fsync is slow
    generator = random.Random(11)
    TOKENIZER.save(tmp_path / "tokenizer.json")
    seen: Counter[str] = Counter()
    for number in range(1000):
        over_long = generator.choice(["skip", "truncate"])
        max_length = generator.choice([0, 0, 7])
        couple = make_couple(generator, max_length if over_long == "skip" else 0)
        folder = tmp_path / str(number)
        folder.mkdir()
        names = write_couple(folder, couple, generator)
        chosen = options(
            folder,
            train=names,
            max_length=max_length,
            over_long=over_long,
            tokenizer={"file": str(tmp_path / "tokenizer.json")},
        )
        if couple.complaint or not couple.kept:
            seen["refused" if couple.complaint else "nothing left"] += 1
            with pytest.raises(UserError, match=couple.complaint or "no example"):
                prepare(chosen)
            assert sorted(path.name for path in folder.iterdir()) == sorted(names)
            continue
        check_couple(prepare(chosen), couple, max_length)
        seen["kept"] += len(couple.kept)
        seen.update(couple.dropped)
        seen.update(couple.repaired)
    assert seen["refused"] > 100
    assert min(seen["kept"], seen["empty"], seen["over-long"], seen[CARRIAGE_RETURN], seen[BYTE_ORDER_MARK]) > 40


def check_couple(store: Store, couple: Couple, max_length: int) -> None:
    for mark, name, lines in (("s", "source", couple.source), ("t", "target", couple.target)):
        stored = texts(store, "train", name)
        assert [text.split(" ")[0] for text in stored] == [f"{mark}{number}" for number in couple.kept]
        expected = [lines[number].removesuffix(b"\r").decode().strip() for number in couple.kept]
        if max_length:
            expected = [TOKENIZER.decode(TOKENIZER.encode(text)[:max_length]) for text in expected]
        assert stored == expected
    record = summarise(store)["splits"]["train"]
    assert Counter(record["dropped"]) == couple.dropped
    assert Counter(record["repaired"]) == couple.repaired


def test_separate_vocabularies(tmp_path: Path) -> None:
    write(tmp_path, "s", ["aaaa bbbb"] * 50)
    write(tmp_path, "t", ["cccc dddd"] * 50)
    store = prepare(options(tmp_path, train=["s", "t"], tokenizer={"size": 270, "joint": False}))
    assert store.manifest.tokenizers == {"source": "tokenizer.source.json", "target": "tokenizer.target.json"}
    assert len(store.tokenizer("source").encode("aaaa")) < len(store.tokenizer("target").encode("aaaa"))
    with pytest.raises(UserError, match="each field has its own tokenizer"):
        store.tokenizer()
    write(tmp_path, "p", ["text"])
    with pytest.raises(UserError, match="joint = false is for source and target"):
        prepare(options(tmp_path, format="plain", train=["p"], tokenizer={"joint": False}, output=str(tmp_path / "o")))


def test_held_out_examples_share_no_text_with_training(tmp_path: Path) -> None:
    pairs = sentences(900, 5)
    for language in ("de", "fr"):  # the same English sentences in both
        write(tmp_path, f"{language}.tsv", [f"{language} {text}\t{text}" for text in pairs])
    sets = {f"{language}-en": [f"{language}.tsv"] for language in ("de", "fr")}
    store = prepare(options(tmp_path, format="tsv", train=sets, hold_out={"valid": 10, "test": 20}))
    assert store.splits == tuple(f"{split}/{name}" for name in sets for split in SPLITS)
    assert store.tokenizer().languages == ("de", "en", "fr")
    english = {split: {text for name in store.sets(split) for text in texts(store, name, "target")} for split in SPLITS}
    assert not english["train"] & english["valid"]
    assert not english["train"] & english["test"]
    assert not english["valid"] & english["test"]
    for name in sets:
        sizes = [len(store[f"{split}/{name}"]) for split in SPLITS]
        assert sum(sizes) == 900
        assert 50 < sizes[1] < 140
        assert 20 < sizes[2] < 80


def test_there_must_be_something_to_prepare(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to prepare"):
        prepare(options(tmp_path))
    write(tmp_path, "a", ["x"])
    with pytest.raises(UserError, match="no training files to learn a tokenizer from"):
        prepare(options(tmp_path, format="plain", test=["a"]))
    write(tmp_path, "blank", ["", " "])
    with pytest.raises(UserError, match="no example in train: every line is empty"):
        prepare(options(tmp_path, format="plain", train=["blank"]))
    with pytest.raises(UserError, match="valid: no example is left; dropped: {'empty': 2}"):
        prepare(options(tmp_path, format="plain", train=["a"], valid=["blank"]))


def test_a_label_alone_is_no_example(tmp_path: Path) -> None:
    write(tmp_path, "a.tsv", ["yes"])
    with pytest.raises(UserError, match="at least one text"):
        prepare(options(tmp_path, format="tsv", train="a.tsv", columns={"label": 1}, labels=["yes"]))


def test_hub_sets_are_known_by_their_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"translation": {"de": f"d{number}", "en": f"e{number}"}} for number in range(20)]
    commit = ["abc"]
    info = types.SimpleNamespace(dataset_info=lambda name: types.SimpleNamespace(sha=commit[0]))
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=lambda *_, **__: iter(rows)))
    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(HfApi=lambda: info))
    columns = {"source": "translation.de", "target": "translation.en"}
    chosen = options(tmp_path, format="hub", train="org/set:de-en", columns=columns)
    store = prepare(chosen)
    assert texts(store, "train", "target") == [f"e{number}" for number in range(20)]
    assert store.verify() == []
    assert prepare(chosen).manifest == store.manifest
    commit[0] = "def"
    with pytest.raises(UserError, match="different now: org/set:de-en:train"):
        prepare(chosen)


def test_language_modelling_on_words(tmp_path: Path) -> None:
    write(tmp_path, "train", [" ", " = The dog = ", " the cat <unk> runs "])
    write(tmp_path, "test", [" the bird runs ", ""])
    store = prepare(
        options(tmp_path, format="wikitext", train=["train"], test=["test"], tokenizer={"kind": "word", "size": 0})
    )
    assert texts(store, "train", "text") == ["", "= The dog =", "the cat <unk> runs"]
    assert texts(store, "test", "text") == ["the <unk> runs", ""]
    assert store["test"].lengths("text").tolist() == [3, 0]


def test_sentence_pairs_with_a_given_vocabulary(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "borrowed.json")
    header = "index\tsentence1\tsentence2"
    write(tmp_path, "train.tsv", [f"{header}\tlabel", "0\tdog runs\tcat runs\tnot_entailment", "1\ta\tb\tentailment"])
    write(tmp_path, "test.tsv", [header, "0\tdog\tcat"])
    borrowed = {"file": str(tmp_path / "borrowed.json")}
    store = prepare(options(tmp_path, format="glue", train=["train.tsv"], test=["test.tsv"], tokenizer=borrowed))
    assert store["train"].fields == ("first", "second", "label")
    assert store["test"].fields == ("first", "second")
    assert store.labels == ("entailment", "not_entailment")
    assert store["train"].gather("label", np.arange(2))[0].tolist() == [1, 0]
    assert store.tokenizer().sha256 == TOKENIZER.sha256
    assert "tokenizer" in {source.split for source in store.manifest.sources}


def test_preparing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    files = parallel(tmp_path)
    first = prepare(options(tmp_path, **files))
    second = prepare(options(tmp_path, **files, output=str(tmp_path / "again")))
    assert (first.folder / "manifest.json").read_bytes() == (second.folder / "manifest.json").read_bytes()
    assert first.manifest.files == second.manifest.files


def test_an_up_to_date_store_is_returned_and_an_outdated_one_refused(tmp_path: Path) -> None:
    files = parallel(tmp_path)
    chosen = options(tmp_path, **files)
    store = prepare(chosen)
    made = (store.folder / "manifest.json").stat().st_mtime_ns
    assert prepare(chosen).manifest == store.manifest
    assert (store.folder / "manifest.json").stat().st_mtime_ns == made
    with pytest.raises(UserError, match="different now: option max_length.*--replace"):
        prepare(options(tmp_path, **files, max_length=9))
    with pytest.raises(UserError, match="different now: option tokenizer"):
        prepare(options(tmp_path, **files, tokenizer={"size": 401}))
    assert len(prepare(options(tmp_path, **files, max_length=9, replace=True))["train"]) < 200


def test_one_changed_byte_in_any_source_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "s.txt", sentences(20, 1))
    write(tmp_path, "t.txt", sentences(20, 2))
    TOKENIZER.save(tmp_path / "tokenizer.json")
    chosen = options(tmp_path, train=["s.txt", "t.txt"], tokenizer={"file": str(tmp_path / "tokenizer.json")})
    store = prepare(chosen)
    for name in ("s.txt", "t.txt", "tokenizer.json"):
        path = tmp_path / name
        original = path.read_bytes()
        for place in range(0, len(original), max(1, len(original) // 40)):
            changed = bytearray(original)
            changed[place] = ord("x") if changed[place] != ord("x") else ord("y")
            path.write_bytes(changed)
            assert [problem for problem in store.verify() if str(path) in problem], (name, place)
            # Where the change also breaks the file (a lost line end), that is complained of first.
            with pytest.raises(UserError, match=f"different now: {path}|lines but"):
                prepare(chosen)
        path.write_bytes(original)
    assert store.verify() == []
    assert prepare(chosen).manifest == store.manifest


def test_one_changed_setting_is_noticed(tmp_path: Path) -> None:
    files = parallel(tmp_path, 30)
    base: dict[str, Any] = {**files, "tokenizer": {"size": 400}}
    store = prepare(options(tmp_path, **base))
    changes: list[dict[str, Any]] = [
        {"max_length": 100},
        {"over_long": "truncate"},
        {"labels": ["a"]},
        {"unit": "paragraph"},
        {"hold_out": {"valid": 5}},
        {"columns": {"source": 1}},
        {"tokenizer": {"size": 401}},
        {"tokenizer": {"size": 400, "lower_case": True}},
        {"tokenizer": {"size": 400, "kind": "word"}},
        {"tokenizer": {"size": 400, "joint": False}},
        {"tokenizer": {"size": 400, "min_frequency": 2}},
        {"tokenizer": {"size": 400, "sample_characters": 100}},
    ]
    for change in changes:
        with pytest.raises(UserError, match=f"different now: option {next(iter(change))}"):
            prepare(options(tmp_path, **{**base, **change}))
    assert prepare(options(tmp_path, **base)).manifest.settings == store.manifest.settings


def test_a_source_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    files = parallel(tmp_path)

    def meddle(stage: str, done: int, total: int | None) -> None:
        if stage == "encoding train":
            os.utime(tmp_path / "train.s.gz", (1, 1))

    with pytest.raises(UserError, match="changed while it was being read"):
        prepare(options(tmp_path, **files), meddle)
    assert not (tmp_path / "store").exists()


def test_unequal_counts_are_refused_before_any_work(tmp_path: Path) -> None:
    files = parallel(tmp_path)
    write(tmp_path, "short", ["one"])
    stages: list[str] = []
    with pytest.raises(UserError, match=r"train.s.gz has 200 lines but .*short has 1"):
        prepare(options(tmp_path, train=files["train"], test=["train.s.gz", "short"]), lambda *a: stages.append(a[0]))
    assert stages == []
    assert not [path for path in tmp_path.iterdir() if "store" in path.name]


def test_progress_counts_examples(tmp_path: Path) -> None:
    reports: list[tuple[str, int, int | None]] = []
    prepare(options(tmp_path, **parallel(tmp_path, 5000)), lambda *report: reports.append(report))
    assert reports[0] == ("reading source, target for the vocabulary", 0, None)
    assert reports[-1] == ("encoding train", 5000, 5000)


MEASURE = """
import json, re, sys
from lamina.data.prepare import PrepareOptions, prepare
prepare(PrepareOptions.read(json.loads(sys.argv[1]), "measure"))
print(int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) // 1024)
"""


def peak_memory(values: dict[str, Any]) -> int:
    """Megabytes resident in a process of its own; ru_maxrss would include the process that started it."""
    command = [sys.executable, "-c", MEASURE, json.dumps(values)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    lines = sentences(40_000, 9)
    peaks = []
    for times in (1, 5):
        write(tmp_path, f"{times}.gz", lines * times)
        values = options(
            tmp_path,
            output=str(tmp_path / f"store{times}"),
            train=[f"{times}.gz"] * 2,
            tokenizer={"size": 1000, "sample_characters": 1_000_000},
        )
        peaks.append(peak_memory(values.model_dump(mode="json")))
    assert peaks[1] < peaks[0] * 1.2


@pytest.mark.slow
def test_memory_does_not_grow_with_the_hours_of_speech(tmp_path: Path) -> None:
    """Features of 260 recordings are 14 MB, of 1040 are 55 MB; 256 are in memory at a time."""
    peaks = []
    for recordings in (260, 1040):
        sets = {"train": [f"speech:{recordings}"], "output": str(tmp_path / f"store{recordings}")}
        tokenizer = {"kind": "character", "size": 0}
        peaks.append(peak_memory({"format": "embedded", **sets, "tokenizer": tokenizer}))
    assert peaks[1] < peaks[0] + 20


@pytest.fixture
def floss(real_data: Path, tmp_path: Path) -> dict[str, Any]:
    splits = {split: [f"{split}.de.gz", f"{split}.en.gz"] for split in SPLITS}
    places = {"folder": str(real_data / "floss.de-en"), "output": str(tmp_path / "store")}
    return {**places, **splits, "tokenizer": {"size": 10_000}}


@pytest.mark.real_data
@pytest.mark.slow
def test_seventy_thousand_real_pairs_come_back_exactly(floss: dict[str, Any]) -> None:
    assert peak_memory(floss) < 1500
    store = Store.open(floss["output"])
    assert {name: len(store[name]) for name in store.splits} == {"train": 70_181, "valid": 1_770, "test": 1_785}
    assert len(store.tokenizer()) == 10_000
    for name, language in (("source", "de"), ("target", "en")):
        with gzip.open(Path(floss["folder"]) / f"valid.{language}.gz", "rt", encoding="utf-8", newline="\n") as lines:
            assert texts(store, "valid", name) == [line.removesuffix("\n") for line in lines]


@pytest.mark.real_data
def test_the_test_set_of_wikitext_has_its_published_size(real_data: Path, tmp_path: Path) -> None:
    files = {split: [f"wiki.{split}.tokens.gz"] for split in ("valid", "test")}
    chosen = PrepareOptions.read(
        {
            "folder": str(real_data / "wikitext103"),
            "output": str(tmp_path / "store"),
            "format": "wikitext",
            "train": files["valid"],
            **files,
            "tokenizer": {"kind": "word", "size": 0},
        },
        "wikitext",
    )
    store = prepare(chosen)
    for split, published in (("valid", 217_646), ("test", 245_569)):
        assert int(store[split].lengths("text").sum()) + len(store[split]) == published
