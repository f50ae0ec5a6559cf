"""Named data sets: each lists the files to download, and is prepared from a folder that has them."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from lamina.data import catalogue
from lamina.data.catalogue import SOURCES, Download
from lamina.data.prepare import prepare
from lamina.data.sources import chosen_options, source_options
from lamina.errors import UserError


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a named source must not touch the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if source.downloads])
def test_without_its_files_a_source_says_what_to_fetch_and_where_to_put_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        source_options(name, str(tmp_path), str(tmp_path / "store"))
    message = str(caught.value)
    for download in SOURCES[name].downloads:
        assert download.file in message
        assert download.url in message
        assert (download.sha256 or "not published") in message
    assert str(tmp_path) in message
    assert f"lamina prepare {name} --folder" in message
    assert SOURCES[name].licence in message
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown data set 'wikitext103'; did you mean 'wikitext-103'"):
        source_options("wikitext103", str(tmp_path), "store")


def use(monkeypatch: pytest.MonkeyPatch, name: str, *downloads: Download) -> None:
    monkeypatch.setitem(catalogue.SOURCES, name, replace(SOURCES[name], downloads=downloads))


def pack(path: Path, files: dict[str, str]) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_archive_in_the_folder_is_unpacked_and_prepared(tmp_path: Path) -> None:
    talks = "".join(f"<title>talk {n}</title>\n<url>u</url>\nsentence {n} one\nsentence {n} two\n" for n in range(100))
    files = {f"de-en/train.tags.de-en.{side}": talks.replace("sentence", side) for side in ("de", "en")}
    for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
        for side in ("de", "en"):
            files[f"de-en/IWSLT14.{name}.de-en.{side}.xml"] = f'<doc>\n<seg id="1"> {side} {name} </seg>\n</doc>\n'
    pack(tmp_path / "de-en.tgz", files)
    options = source_options("iwslt14-de-en", str(tmp_path), str(tmp_path / "store"), tokenizer={"size": 300})
    store = prepare(options)
    assert len(store["test"]) == 5
    assert len(store["train"]) + len(store["valid"]) == 300
    tokenizer = store.tokenizer()
    assert tokenizer.decode(store["test"].tokens("source", 1)) == "de TEDX.dev2012"
    again = source_options("iwslt14-de-en", str(tmp_path), str(tmp_path / "store"), tokenizer={"size": 300})
    assert prepare(again).manifest == store.manifest


def test_the_folders_of_librispeech_are_found(tmp_path: Path) -> None:
    """Its files are folders of recordings, not files."""
    for download in SOURCES["librispeech"].downloads:
        (tmp_path / download.folder / "LibriSpeech" / download.folder).mkdir(parents=True)
    options = source_options("librispeech", str(tmp_path), str(tmp_path / "store"))
    assert list(options.sets("test")) == ["test/clean", "test/other"]


def test_a_wrong_checksum_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "RTE.zip", "w") as packed:
        for split in ("train", "dev", "test"):
            packed.writestr(f"RTE/{split}.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailment\n")
    with pytest.raises(UserError, match=r"RTE.zip: not the file of rte.*download it again from https"):
        source_options("rte", str(tmp_path), "store")
    assert [path.name for path in tmp_path.iterdir()] == ["RTE.zip"]
    digest = hashlib.sha256((tmp_path / "RTE.zip").read_bytes()).hexdigest()
    use(monkeypatch, "rte", replace(SOURCES["rte"].downloads[0], sha256=digest))
    assert source_options("rte", str(tmp_path), "store").train == ("RTE/train.tsv",)


def test_every_language_pair_of_opus_becomes_a_set(tmp_path: Path) -> None:
    files = {}
    for pair, parts in (("de-en", ("train", "dev", "test")), ("an-en", ("train",))):
        for part in parts:
            for side in pair.split("-"):
                files[f"opus-100-corpus/v1.0/supervised/{pair}/opus.{pair}-{part}.{side}"] = f"{side} {part}\n" * 3
    pack(tmp_path / "opus-100-corpus-v1.0.tar.gz", files)
    options = source_options("opus-100", str(tmp_path), str(tmp_path / "store"), tokenizer={"size": 300})
    assert list(options.sets("train")) == ["train/an-en", "train/de-en"]
    assert list(options.sets("test")) == ["test/de-en"]
    store = prepare(options)
    assert store.sets("train") == ("train/an-en", "train/de-en")
    assert store.tokenizer().languages == ("an", "de", "en")


def test_a_changed_key_of_a_section_leaves_the_others() -> None:
    options = chosen_options("embedded-speech", ["tokenizer.min_frequency=2"], {"output": "store"})
    assert (options.tokenizer.kind, options.tokenizer.min_frequency) == ("character", 2)
