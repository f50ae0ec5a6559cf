"""The catalogue: every data set of the papers, with well-formed options and checksums."""

from __future__ import annotations

import pytest

from lamina.data.catalogue import SOURCES
from lamina.data.prepare_options import PrepareOptions
from lamina.data.sources import describe

PAPERS = {
    "iwslt14-de-en",
    "wmt14-en-de",
    "wmt14-en-fr",
    "opus-100",
    "gigaword",
    "librispeech",
    "wikitext-103",
    "wikipedia-books",
    "mrpc",
    "rte",
}


def test_every_set_of_the_papers_is_there() -> None:
    assert set(SOURCES) >= PAPERS


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_options_and_checksums_are_well_formed(name: str) -> None:
    source = SOURCES[name]
    options = PrepareOptions.read({**source.options, "output": "store"}, name)
    folders = [download.folder for download in source.downloads if download.folder]
    for split in ("train", "valid", "test"):
        for files in options.sets(split).values():
            assert options.format != "parallel" or len(files) % 2 == 0
            assert not folders or all(file.partition("/")[0] in folders for file in files)
    for download in source.downloads:
        assert download.sha256 is None or len(bytes.fromhex(download.sha256)) == 32
    assert describe(name).startswith(source.title)


def test_all_archives_of_librispeech_have_checksums_and_its_units_are_the_papers() -> None:
    source = SOURCES["librispeech"]
    assert len({download.sha256 for download in source.downloads} - {None}) == 7
    assert source.options["tokenizer"] == {"kind": "unigram", "size": 10_000, "lower_case": True}


def test_newstests_of_all_years() -> None:
    options = PrepareOptions.read({**SOURCES["wmt14-en-de"].options, "output": "store"}, "wmt14-en-de")
    assert list(options.sets("test")) == [f"test/newstest{year}" for year in range(2010, 2017)]
