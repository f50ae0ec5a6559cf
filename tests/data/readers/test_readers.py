"""Every format's reader: what it yields, what it drops and counts, and how it complains."""

from __future__ import annotations

import gzip
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lamina.data.readers import READERS, Example, Notes, make_reader
from lamina.data.store import Store
from lamina.errors import UserError
from support.extensions import copy_package, install, run


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return str(path)


def read(format: str, *files: str, notes: Notes | None = None, **options: Any) -> list[Example]:
    reader = make_reader(format, files, "train", **{"columns": {}, **options})
    reader.check()
    return list(reader.read(notes or Notes()))


def fields(examples: list[Example]) -> list[tuple[str | int, ...]]:
    return [tuple(example.fields.values()) for example in examples]


def test_parallel_pairs_line_by_line_and_drops_in_pairs(tmp_path: Path) -> None:
    source = write(tmp_path, "s.de", "eins\n\ndrei\nvier\u2028immer noch vier\n  \nsechs")
    target = write(tmp_path, "s.en.gz", "one\ntwo\n\nfour\nfive\nsix\n")
    notes = Notes()
    examples = read("parallel", source, target, notes=notes)
    assert fields(examples) == [("eins", "one"), ("vier\u2028immer noch vier", "four"), ("sechs", "six")]
    assert [example.line for example in examples] == [1, 4, 6]
    assert list(examples[0].fields) == ["source", "target"]
    assert notes.dropped() == {"empty": 3}
    assert notes.dropped_lines() == {"empty": {source: [2, 3, 5]}}


def test_parallel_counts_must_agree_and_are_both_shown(tmp_path: Path) -> None:
    source, target = write(tmp_path, "a", "1\n2\n3\n"), write(tmp_path, "b", "1\n2\n")
    reader = make_reader("parallel", (source, target), "train", {})
    with pytest.raises(UserError, match=r"a has 3 lines but .*b has 2"):
        reader.check()
    with pytest.raises(UserError, match=r"a has 3 lines but .*b has 2"):  # also when nobody checked first
        list(reader.read(Notes()))
    with pytest.raises(UserError, match="couples, source then target; 3 given"):
        make_reader("parallel", (source, target, source), "train", {})


def test_parallel_reads_several_couples(tmp_path: Path) -> None:
    files = [write(tmp_path, name, f"{name}1\n{name}2\n") for name in "abcd"]
    assert fields(read("parallel", *files)) == [("a1", "b1"), ("a2", "b2"), ("c1", "d1"), ("c2", "d2")]


TALK = """<url>http://a</url>
<keywords>talks, x</keywords>
<talkid>1</talkid>
<title>{0} title</title>
<description>{0} description &amp; more</description>
{0} one
 {0} two with <b> inside

"""
SGML = """<refset setid="n" srclang="any" trglang="{0}">
<doc docid="1"><hl>
<seg id="1">{0} head &quot;line&quot;</seg>
</hl><p>
<seg id="2"> {0} text </seg>
<seg id="3"></seg>
</p></doc></refset>
"""


def test_markup_of_iwslt_and_wmt(tmp_path: Path) -> None:
    talks = [write(tmp_path, f"train.tags.de-en.{side}", TALK.format(side)) for side in ("de", "en")]
    notes = Notes()
    expected = ["{} title", "{} description & more", "{} one", "{} two with <b> inside"]
    assert fields(read("parallel", *talks, notes=notes)) == [(t.format("de"), t.format("en")) for t in expected]
    assert notes.dropped() == {"empty": 1}
    news = [write(tmp_path, f"newstest-{side}.sgm.gz", SGML.format(side)) for side in ("en", "de")]
    notes = Notes()
    examples = read("parallel", *news, notes=notes)
    assert fields(examples) == [('en head "line"', 'de head "line"'), ("en text", "de text")]
    assert [example.line for example in examples] == [3, 5]
    assert notes.dropped_lines() == {"empty": {news[0]: [6]}}


def test_markup_faults(tmp_path: Path) -> None:
    good = write(tmp_path, "good.sgm", SGML.format("x"))
    short = write(tmp_path, "short.sgm", '<seg id="1">x</seg>\n')
    broken = write(tmp_path, "broken.xml", "<doc>\n<seg id='1'>one\n</seg>")
    none = write(tmp_path, "none.xml", "<doc>\n</doc>\n")
    for pair, complaint in (
        ((good, short), r"good.sgm has 3 lines but .*short.sgm has 1"),
        ((good, broken), r"broken.xml, line 2: a <seg> that does not close"),
        ((good, none), r"none.xml: no sentence found"),
    ):
        with pytest.raises(UserError, match=complaint):
            read("parallel", *pair)


def test_tsv_by_number_and_by_name(tmp_path: Path) -> None:
    plain = write(tmp_path, "plain.tsv", 'ein "Satz\ta "sentence\nzwei\ttwo\n\n \tblank\n')
    notes = Notes()
    assert fields(read("tsv", plain, notes=notes)) == [('ein "Satz', 'a "sentence'), ("zwei", "two")]
    assert notes.dropped_lines() == {"empty": {plain: [3, 4]}}
    named = write(tmp_path, "named.tsv.gz", "id\ten\tde\r\n1\tone\teins\r\n")
    assert fields(read("tsv", named, columns={"source": "de", "target": "en"})) == [("eins", "one")]
    assert fields(read("tsv", plain, columns={"text": 2})) == [('a "sentence',), ("two",), ("blank",)]


@pytest.mark.parametrize(
    ("content", "columns", "complaint"),
    [
        ("a\tb\nc\n", {}, r"line 2: 1 columns where the first line has 2"),
        ("a\tb\nc\td\te\n", {}, r"line 2: 3 columns where the first line has 2"),
        ("a\n", {}, r"line 1: no column 2; there are \['1'\]"),
        ("de\ten\na\tb\n", {"text": "eng"}, r"line 1: no column 'eng'; there are \['de', 'en'\]. Did you mean 'en'"),
        ("a\tb\n", {"source": 1, "target": "en"}, r"give all by number .* or all by name"),
    ],
)
def test_tsv_faults(tmp_path: Path, content: str, columns: dict[str, int | str], complaint: str) -> None:
    path = write(tmp_path, "bad.tsv", content)
    with pytest.raises(UserError, match=complaint):
        read("tsv", path, columns=columns)


def test_labels_are_numbers_of_their_set(tmp_path: Path) -> None:
    path = write(tmp_path, "pairs.tsv", "a\tb\tyes\nc\td\tno\n")
    columns = {"first": 1, "second": 2, "label": 3}
    assert fields(read("tsv", path, columns=columns, labels=("no", "yes"))) == [("a", "b", 1), ("c", "d", 0)]
    with pytest.raises(UserError, match=r"line 2: label 'no' is not in the set \['nope', 'yes'\]. Did you mean 'nope'"):
        read("tsv", path, columns=columns, labels=("nope", "yes"))
    with pytest.raises(UserError, match="line 1: a label, but no label set"):
        read("tsv", path, columns=columns)


def test_jsonl_with_nested_keys_and_labels(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"translation": {"de": "eins", "en": "one\nstill one"}, "x": 1},
        {"translation": {"de": "", "en": "two"}},
    ]
    path = write(tmp_path, "a.jsonl.gz", "\n".join(map(json.dumps, records)) + "\n\n")
    notes = Notes()
    columns = {"source": "translation.de", "target": "translation.en"}
    assert fields(read("jsonl", path, notes=notes, columns=columns)) == [("eins", "one\nstill one")]
    assert notes.dropped_lines() == {"empty": {path: [2, 3]}}
    labelled = write(tmp_path, "b.jsonl", '{"t": "x", "l": 1}\n')
    assert fields(read("jsonl", labelled, columns={"text": "t", "label": "l"}, labels=("0", "1"))) == [("x", 1)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"text": "a"', r"line 2: not valid JSON"),
        ("[" * 100_000, r"line 2: not valid JSON"),
        ('["a"]', r"line 2: expected a JSON object"),
        ('{"txt": "a"}', r"line 2: no column 'text'; there are \['txt'\]. Did you mean 'txt'"),
        ('{"text": 5}', r"line 2: column 'text' is int, not text"),
        ('{"text": null}', r"line 2: column 'text' is NoneType, not text"),
        ('{"text": "a\\u0000"}', r"line 2: .*NUL"),
        ('{"text": "\\ud800"}', r"line 2: .*U\+D800"),
    ],
)
def test_jsonl_faults(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path, "bad.jsonl", '{"text": "fine"}\n' + line + "\n")
    with pytest.raises(UserError, match=complaint):
        read("jsonl", path, columns={"text": "text"})
    with pytest.raises(UserError, match="format = 'jsonl' needs columns"):
        read("jsonl", path)


def test_plain_text_by_line_and_by_paragraph(tmp_path: Path) -> None:
    path = write(tmp_path, "book.txt", "A line\nwrapped \n\n\n second\u2028one\n  \nthird")
    notes = Notes()
    assert fields(read("plain", path, notes=notes)) == [("A line",), ("wrapped ",), (" second\u2028one",), ("third",)]
    assert notes.dropped() == {"empty": 3}
    examples = read("plain", path, unit="paragraph")
    assert fields(examples) == [("A line wrapped",), ("second\u2028one",), ("third",)]
    assert [example.line for example in examples] == [1, 5, 7]


def test_wikitext_keeps_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "wiki.tokens", " \n = Title = \n \n The <unk> @-@ word . \n")
    notes = Notes()
    assert fields(read("wikitext", path, notes=notes)) == [("",), ("= Title =",), ("",), ("The <unk> @-@ word .",)]
    assert notes.dropped() == {}


def test_glue_files_know_their_columns_and_labels(tmp_path: Path) -> None:
    mrpc = write(tmp_path, "mrpc.tsv", '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\tSay "it .\tIt "\n')
    rte = write(tmp_path, "rte.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n")
    test = write(tmp_path, "test.tsv", "index\tsentence1\tsentence2\n0\tA.\tB.\n")
    assert read("glue", mrpc)[0].fields == {"first": 'Say "it .', "second": 'It "', "label": 1}
    assert read("glue", rte)[0].fields == {"first": "A.", "second": "B.", "label": 1}
    assert read("glue", test)[0].fields == {"first": "A.", "second": "B."}
    wrong = write(tmp_path, "wrong.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailed\n")
    with pytest.raises(UserError, match=r"line 2: label 'entailed' .* Did you mean 'entailment'"):
        read("glue", wrong)
    lacking = write(tmp_path, "lacking.tsv", "index\tsentence1\tlabel\n0\tA.\tentailment\n")
    with pytest.raises(UserError, match=r"line 1: no column called '#2 String' or 'sentence2'"):
        read("glue", lacking)


@pytest.mark.parametrize("format", ["parallel", "tsv", "jsonl", "plain", "glue", "wikitext"])
def test_every_format_refuses_missing_and_empty_files_before_any_work(tmp_path: Path, format: str) -> None:
    empty = write(tmp_path, "empty", "")
    for path, complaint in ((empty, "empty: the file is empty"), (str(tmp_path / "none"), "none: no such file")):
        reader = make_reader(format, (path, path), "train", {"text": "text"} if format == "jsonl" else {})
        with pytest.raises(UserError, match=complaint):
            reader.check()


class FakeHub(types.ModuleType):
    """Stands for both libraries: the tests must not touch the network."""

    rows = ({"translation": {"de": "eins", "en": "one"}}, {"translation": {"de": " ", "en": "two"}})
    asked: tuple[Any, ...] = ()

    def load_dataset(self, id: str, configuration: str | None, split: str, streaming: bool) -> Iterator[dict[str, Any]]:
        type(self).asked = (id, configuration, split, streaming)
        if id == "absent":
            raise ConnectionError("no network")
        return iter(self.rows)

    def HfApi(self) -> FakeHub:  # noqa: N802 - the library's name
        return self

    def dataset_info(self, id: str) -> Any:
        return types.SimpleNamespace(sha=f"commit of {id}")


def test_hub_sets_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("datasets", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, name, FakeHub(name))
    columns = {"source": "translation.de", "target": "translation.en"}
    notes = Notes()
    reader = make_reader("hub", ("org/set:de-en",), "valid", columns)
    reader.check()
    assert fields(list(reader.read(notes))) == [("eins", "one")]
    assert FakeHub.asked == ("org/set", "de-en", "validation", True)
    assert notes.dropped_lines() == {"empty": {"org/set:de-en:validation": [2]}}
    assert reader.revisions() == {"org/set:de-en:validation": "commit of org/set"}  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="cannot be read from the hub .*no network"):
        list(make_reader("hub", ("absent",), "train", columns).read(Notes()))
    with pytest.raises(UserError, match="write id, id:configuration or id:configuration:split"):
        make_reader("hub", ("a:b:c:d",), "train", columns)


def test_the_hub_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'lamina\[hub\]'"):
        make_reader("hub", ("org/set",), "train", {"text": "text"}).check()


NEW_READER = """
from collections.abc import Iterator
from dataclasses import dataclass

from lamina.data.readers.base import Example, Notes, Reader, Request
from lamina.files.text_lines import read_lines


@dataclass(frozen=True)
class ShoutedFiles(Reader):
    format = "shouted"
    files: tuple[str, ...]

    @classmethod
    def open(cls, request: Request) -> "ShoutedFiles":
        return cls(request.sources)

    def read(self, notes: Notes) -> Iterator[Example]:
        for file in self.files:
            for number, line in enumerate(read_lines(file, notes.repaired), start=1):
                yield Example({"text": line.upper()}, file, number)
"""


def prepare_shouted(path: Path) -> None:
    write(path, "quiet.txt", "a quiet line\nanother\n")
    keys = ["format=shouted", "train=['quiet.txt']", "output=store", "tokenizer.size=300"]
    write(path, "shouted.toml", "")
    prepared = run("-m", "lamina", "prepare", "shouted.toml", *keys, path=path, folder=path)
    assert prepared.returncode == 0, prepared.stderr
    store = Store.open(path / "store")
    assert store.tokenizer().decode(store["train"].tokens("text", 0)) == "A QUIET LINE"


def test_one_new_file_is_a_new_reader(tmp_path: Path) -> None:
    write(copy_package(tmp_path), "data/readers/shouted.py", NEW_READER)
    prepare_shouted(tmp_path)


def test_an_installed_package_adds_readers_by_entry_point(tmp_path: Path) -> None:
    write(tmp_path, "someones_reader.py", NEW_READER)
    install(tmp_path, "lamina.readers", shouted="someones_reader:ShoutedFiles")
    prepare_shouted(tmp_path)


def test_every_format_has_a_reader() -> None:
    assert set(READERS) == {"parallel", "tsv", "jsonl", "plain", "glue", "wikitext", "hub", "embedded"}
    with pytest.raises(UserError, match="unknown format 'jsnl'; did you mean 'jsonl'"):
        make_reader("jsnl", (), "train", {})
