"""The store: exact reading, and refusal of unfinished, foreign or changed stores."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.data.store import MANIFEST, Manifest, Store
from lamina.errors import UserError
from lamina.files.hashes import FileRecord, hash_json
from support.small_stores import LARGE, TOKENIZER, Sequences, small, write_store


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = small(tmp_path / "store")
    split = store["train"]
    assert (store.splits, store.labels, split.fields, len(split)) == (("train",), ("no", "yes"), ("text", "label"), 4)
    assert split.lengths("text").tolist() == [3, 0, 1, 2]
    assert split.lengths("text").dtype == np.int64
    assert [split.tokens("text", index).tolist() for index in range(-4, 4)] == [[7, 8, 9], [], [278], [10, 11]] * 2
    ids, lengths = split.gather("text", np.array([3, 0, 3, 1]))
    assert (ids.tolist(), lengths.tolist(), ids.dtype) == ([10, 11, 7, 8, 9, 10, 11], [2, 3, 2, 0], np.int64)
    assert split.gather("label", np.arange(4))[0].tolist() == [1, 0, 0, 1]
    assert store.tokenizer().sha256 == store.tokenizer("text").sha256 == TOKENIZER.sha256
    assert store.dropped() == {"train": {"empty": {"a.txt": [3]}}}
    assert store.verify() == []


def test_tokens_is_a_view_that_cannot_be_written(tmp_path: Path) -> None:
    tokens = small(tmp_path / "store")["train"].tokens("text", 0)
    assert tokens.base is not None
    assert tokens.dtype == np.uint16
    with pytest.raises(ValueError, match="read-only"):
        tokens[0] = 1


def test_large_vocabularies_take_four_bytes(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", {"train": {"text": [[70_000, 1], [2]]}}, dtype="int32", tokenizer=LARGE)
    assert store["train"].tokens("text", 0).tolist() == [70_000, 1]
    assert store["train"].tokens("text", 0).dtype == np.int32


def test_asking_for_what_is_not_there(tmp_path: Path) -> None:
    store = small(tmp_path / "store")
    with pytest.raises(UserError, match="unknown split 'trian'; did you mean 'train'"):
        store["trian"]
    with pytest.raises(UserError, match="unknown field of split 'train' 'txt'; did you mean 'text'"):
        store["train"].lengths("txt")
    with pytest.raises(UserError, match="unknown text field"):
        store.tokenizer("label")
    with pytest.raises(IndexError):
        store["train"].tokens("text", 4)
    for index in (4, -1):
        with pytest.raises(IndexError, match="4 examples"):
            store["train"].gather("text", np.array([index]))


@settings(max_examples=30, deadline=None)
@given(st.data(), st.lists(st.lists(st.integers(0, 278), max_size=6), max_size=20))
def test_gather_equals_a_loop(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, sequences: Sequences
) -> None:
    store = write_store(tmp_path_factory.mktemp("any") / "store", {"train": {"text": sequences}})
    choice = st.lists(st.integers(0, len(sequences) - 1), max_size=30) if sequences else st.just([])
    indices = data.draw(choice)
    ids, lengths = store["train"].gather("text", np.array(indices, np.int64))
    assert lengths.tolist() == [len(sequences[index]) for index in indices]
    assert ids.tolist() == [token for index in indices for token in sequences[index]]
    assert store["train"].lengths("text").tolist() == [len(sequence) for sequence in sequences]


def test_sets_of_a_split(tmp_path: Path) -> None:
    names = ("train/de-en", "train/fr-en", "test")
    store = write_store(tmp_path / "store", {name: {"text": [[1]]} for name in names})
    assert store.sets("train") == ("train/de-en", "train/fr-en")
    assert store.sets("test") == ("test",)
    assert store["train/fr-en"].tokens("text", 0).tolist() == [1]


def test_gather_does_not_loop_over_the_sequences(tmp_path: Path) -> None:
    """As many calls for a thousand sequences as for ten: all work is in numpy."""
    split = write_store(tmp_path / "store", {"train": {"text": [[at % 99] * (1 + at % 50) for at in range(3000)]}})[
        "train"
    ]
    split.gather("text", np.arange(10))
    calls = []
    for count in (10, 1000):
        seen: list[str] = []
        sys.setprofile(lambda frame, event, argument, seen=seen: seen.append(event))  # type: ignore[misc]
        try:
            split.gather("text", np.arange(count))
        finally:
            sys.setprofile(None)
        calls.append(len(seen))
    assert calls[0] == calls[1]


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x01
    path.write_bytes(content)


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    """All bytes of the small files, headers of arrays included; a store of a few kilobytes."""
    source = tmp_path / "source.txt"
    source.write_text("the source\n")
    original = tmp_path / "original"
    small(original, source=source)
    copy = tmp_path / "copy"
    shutil.copytree(original, copy)
    tested = 0
    for path in [*(path for path in sorted(copy.rglob("*")) if path.is_file()), source]:
        size = path.stat().st_size
        step = 1 if path.suffix == ".npy" or path == source else max(1, size // 100)
        for place in range(0, size, step):
            before = path.read_bytes()
            flip(path, place)
            assert noticed(copy, source), f"{path}, byte {place}"
            path.write_bytes(before)
            tested += 1
    assert not noticed(copy, source)
    assert tested > 500


def noticed(folder: Path, source: Path) -> bool:
    """Whether opening the store fails; of the source, whether verifying names it."""
    try:
        return bool([problem for problem in Store.open(folder).verify() if str(source) in problem])
    except UserError:
        return True


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest and seal it again, as an attacker or another version would."""
    sealed = json.loads((folder / MANIFEST).read_bytes())
    change(sealed)
    sealed["sha256"] = hash_json(sealed["manifest"])
    (folder / MANIFEST).write_text(json.dumps(sealed, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda sealed: sealed.update(version=1), r"another version of Lamina \(found lamina-store 1.*lamina prepare"),
        (lambda sealed: sealed.update(format="other"), r"another version of Lamina"),
        (lambda sealed: sealed["manifest"].update(new=1), r"unknown option 'new'"),
        (lambda sealed: sealed["manifest"].pop("splits"), r"manifest.json: splits"),
        (lambda sealed: sealed["manifest"]["tokenizers"].update(text="../secret.json"), r"not a name inside the store"),
        (
            lambda sealed: sealed["manifest"]["files"].update({"/etc/x": {"bytes": 1, "sha256": ""}}),
            r"not a name inside",
        ),
        (
            lambda sealed: sealed["manifest"]["tokenizers"].update(text="other.json"),
            r"tokenizer other.json is not among",
        ),
        (lambda sealed: sealed["manifest"]["files"].update({"gone": {"bytes": 1, "sha256": ""}}), r"gone: missing"),
    ],
)
def test_foreign_manifests_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], complaint: str
) -> None:
    small(tmp_path / "store")
    rewrite(tmp_path / "store", change)
    with pytest.raises(UserError, match=complaint):
        Store.open(tmp_path / "store")


def test_settings_are_sealed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    before = small(folder).manifest.settings
    content = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(content.replace('"max_length": 5', '"max_length": 6'))
    with pytest.raises(UserError, match="has changed since it was written"):
        Store.open(folder)
    (folder / MANIFEST).write_text(content)
    rewrite(folder, lambda sealed: sealed["manifest"]["settings"].update(max_length=6))
    assert Manifest.load(folder).settings != before


def test_unfinished_stores_are_refused_with_a_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with pytest.raises(UserError, match="no such store; make it with lamina prepare"):
        Store.open(folder)
    small(folder)
    tokens = folder / "train" / "text.tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1])
    with pytest.raises(
        UserError, match=r"text.tokens.npy: \d+ bytes long instead of \d+, so the store is damaged. Prepare"
    ):
        Store.open(folder)
    tokens.unlink()
    with pytest.raises(UserError, match=r"text.tokens.npy: missing"):
        Store.open(folder)
    (folder / MANIFEST).write_text('{"format": "lamina-st')
    with pytest.raises(UserError, match=r"damaged.* Prepare the data again with lamina prepare"):
        Store.open(folder)
    (folder / MANIFEST).unlink()
    with pytest.raises(UserError, match=r"not a store, for it has no manifest.json"):
        Store.open(folder)


def reseal(folder: Path, *names: str) -> None:
    """Give the manifest the sizes and hashes that files have now, as a faulty writer would have done."""

    def record(sealed: dict[str, Any]) -> None:
        for name in names:
            sealed["manifest"]["files"][name] = FileRecord.of(folder / name).model_dump()

    rewrite(folder, record)


def test_arrays_that_disagree_with_the_manifest_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    small(folder)
    name = "train/text.offsets.npy"
    for wrong in ([0, 3, 3, 4, 7], [0, 9, 3, 4, 6], [0, 3, -5, 4, 6], [0, 1 << 60, 3, 4, 6]):
        np.save(folder / name, np.array(wrong, np.int64))
        reseal(folder, name)
        with pytest.raises(UserError, match="arrays of train/text are damaged"):
            Store.open(folder)["train"].lengths("text")
    (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)
    reseal(folder, name)
    with pytest.raises(UserError, match="not a valid array"):
        Store.open(folder)["train"].lengths("text")


@pytest.mark.parametrize(("field", "tokens"), [("text", [7, 8, 9, 279, 10, 11]), ("label", [1, 0, 2, 1])])
def test_tokens_outside_the_vocabulary_are_refused(tmp_path: Path, field: str, tokens: list[int]) -> None:
    folder = tmp_path / "store"
    small(folder)
    name = f"train/{field}.tokens.npy"
    np.save(folder / name, np.array(tokens, np.uint16))
    reseal(folder, name)
    size = {"text": "279", "label": "2"}[field]
    with pytest.raises(UserError, match=rf"{field}.tokens.npy: damaged, with a token that is not among the {size} "):
        Store.open(folder)["train"].gather(field, np.arange(4))


def test_one_flipped_bit_in_an_array_is_noticed_when_the_store_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    small(folder)
    tokens = folder / "train" / "text.tokens.npy"
    content = bytearray(tokens.read_bytes())
    content[-2] ^= 1  # another token of the vocabulary
    tokens.write_bytes(content)
    with pytest.raises(UserError, match=r"text.tokens.npy: its content has changed, so the store is damaged"):
        Store.open(folder)


def test_no_message_about_a_path_that_is_no_store_advises_to_delete_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "own.toml"
    config.write_text("train = []")
    with pytest.raises(
        UserError, match=r"own.toml: a file, but a store is a folder .* lamina prepare .*own.toml"
    ) as one:
        Store.open(config)
    (tmp_path / "text").mkdir()
    with pytest.raises(UserError, match="not a store, for it has no manifest.json; name a folder") as other:
        Store.open(tmp_path / "text")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=rf"gone: no such store \(relative to the working directory, {tmp_path}\)"
    ) as last:
        Store.open("gone")
    assert not any("delete" in str(caught.value) for caught in (one, other, last))


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    small(folder)
    offsets = folder / "train" / "text.offsets.npy"
    np.save(offsets, np.array([{"an": "object"}], object), allow_pickle=True)
    reseal(folder, "train/text.offsets.npy")
    with pytest.raises(UserError, match="not a valid array"):
        Store.open(folder)["train"].lengths("text")


def test_a_changed_tokenizer_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    small(folder)
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("some", "same", 1).replace('"kind": "bpe"', '"kind": "bpf"'))
    with pytest.raises(UserError, match="tokenizer.json: its content has changed"):
        Store.open(folder)
    with pytest.raises(UserError, match="not the tokenizer that manifest.json beside it describes"):
        Store.open_unverified(folder).tokenizer()
