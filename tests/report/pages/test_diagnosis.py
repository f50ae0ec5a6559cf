"""The page of a diagnosis, as text: complete, escaped, self-contained, and the same every time."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lamina.diagnosis.measurement import Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.results import Diagnosis
from lamina.errors import UserError
from lamina.report.pages.diagnosis import diagnosis_page, save_diagnoses
from support.made_diagnoses import HOSTILE, NEEDS_TRAINING, hostile, make


class Tags(HTMLParser):
    """Every tag with its attributes, and the text outside style sheets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module")
def one() -> str:
    return diagnosis_page([make("post-ln")])


@pytest.fixture(scope="module")
def several() -> str:
    return diagnosis_page([make("post-ln"), make("pre-ln"), make("resi-dual"), hostile()])


def test_it_opens_with_the_worst_finding(one: str) -> None:
    text = "".join(Tags(one).texts)
    shown = ("Findings", "vanishes", "near half precision", "stay apart", "Not checked", "What to look for")
    places = [text.index(what, text.index("Findings")) for what in shown]
    assert places == sorted(places)
    assert "1 failure, 1 warning, 1 fine, 3 not checked" in text
    assert "✗ failure" in " ".join(text.split())
    assert "erdict" not in one


def test_remedies_are_lines_of_a_config(one: str) -> None:
    text = "".join(Tags(one).texts)
    assert 'model.residual = "b2t", "resi-dual" or "pre-ln"; or schedule.learning_rate < 3e-4.' in text
    assert 'train.precision = "bf16"; or keep the stream in fp32.' in text
    assert "<code><bdi>schedule.learning_rate &lt; 3e-4</bdi></code>" in one


def test_what_was_not_checked_is_listed_apart_and_never_fine(one: str) -> None:
    listed = re.search(r'<dl class="not-checked">.*?</dl>', one, re.DOTALL)
    assert listed
    text = " ".join("".join(Tags(listed[0]).texts).split())
    assert f"unstable, vanished{NEEDS_TRAINING}" in text, "one line for one reason"
    assert "learning ratethe highest learning rate of training is not known" in text
    findings = one[: listed.start()]
    assert NEEDS_TRAINING not in findings
    assert findings.count('class="badge fine"') == 1


def test_every_measure_has_pictures_caption_source_and_table(one: str) -> None:
    for measurement in make("post-ln").measurements:
        section = re.search(rf'<section class="measure" id="{measurement.key}".*?</section>', one, re.DOTALL)
        assert section, measurement.key
        shown = Tags(section[0])
        described = [each for each in shown.all("svg") if each.get("role") == "img"]
        assert len(described) >= max(1, len(measurement.grids))
        assert all(each["aria-label"] for each in described)
        assert shown.all("details")
        assert shown.all("table")
        text = "".join(shown.texts)
        assert measurement.about.look_for in text
        assert measurement.about.source in text


def test_the_table_holds_the_numbers_with_their_spread(one: str) -> None:
    assert "0.0449 ± 0.013" in one


def test_what_could_not_be_measured_is_said(one: str) -> None:
    assert "the model has no dual stream" in one


def test_the_scheme_is_drawn_with_its_equation(one: str) -> None:
    assert "x ← LN(x + f(x))" in one
    assert "──►" in one


def test_nothing_comes_from_outside_and_nothing_runs(several: str) -> None:
    shown = Tags(several)
    targets = [v for _, attributes in shown.tags for k, v in attributes.items() if k in ("src", "href", "xlink:href")]
    assert all(target and target.startswith(("#", "data:")) for target in targets)
    assert not re.search(r"url\((?!#)", several)
    assert not re.search(r"@import|https?://", several)
    assert not any(tag in ("script", "img", "iframe", "object", "form") for tag, _ in shown.tags)
    assert not any(name.startswith("on") for _, attributes in shown.tags for name in attributes)
    assert "default-src 'none'" in several


def test_hostile_names_are_text(several: str) -> None:
    text = "".join(Tags(several).texts)
    for name in HOSTILE:
        assert name in text
    assert "\x00" not in several
    assert "\u202e" not in several


def test_ids_are_unique_and_every_reference_has_its_target(several: str) -> None:
    shown = Tags(several)
    ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([\w-]+)', several)) <= set(ids)


def test_several_models_share_a_picture_in_the_colours_of_their_schemes(several: str) -> None:
    section = re.search(r'<section class="measure" id="gradient-along-stream".*?</section>', several, re.DOTALL)
    assert section
    for colour in ("#d55e00", "#0072b2", "#e69f00"):
        assert colour in section[0].lower()
    assert "theory" in section[0]
    assert "stroke-dasharray" in section[0]


def test_the_same_diagnosis_gives_the_same_page(one: str) -> None:
    assert diagnosis_page([make("post-ln")]) == one


def test_pictures_take_their_colours_from_the_page(one: str) -> None:
    assert "currentColor" in one
    assert "font-family: 'DejaVu" not in one
    assert "prefers-color-scheme: dark" in one
    assert "#010203" not in one


def test_values_that_are_not_finite_are_described_in_words(several: str) -> None:
    text = "".join(Tags(several).texts)
    for words in ("not a number at 2", "infinite at 3", "zero or less at 4"):
        assert words in text


@pytest.mark.parametrize("log", [False, True])
def test_a_curve_without_a_finite_number_is_drawn_empty(log: bool) -> None:
    diagnosis = make("post-ln")
    line = Series(location=Location(stack="encoder"), x=(1.0, 2.0), y=(math.nan, math.inf), spread=(math.nan, math.inf))
    about = diagnosis.measurements[0].about
    axes = about.axes.model_copy(update={"log_y": log, "log_x": log})
    measurement = diagnosis.measurements[0].model_copy(
        update={"series": (line,), "about": about.model_copy(update={"axes": axes})}
    )
    text = diagnosis_page([diagnosis.model_copy(update={"measurements": (measurement,)})])
    assert "has no finite value" in text


def test_models_of_one_name_are_told_apart() -> None:
    text = diagnosis_page([make("pre-ln"), make("pre-ln", step=500), make("pre-ln", step=500)], "md")
    assert text.startswith("# Diagnosis: pre-ln\n")
    assert "### pre-ln at the start\n" in text
    assert "### pre-ln after 500 steps (2)\n" in text


def test_markdown_has_findings_tables_and_shapes() -> None:
    text = diagnosis_page([make("post-ln"), make("pre-ln")], "md")
    lines = text.splitlines()
    assert lines[0] == "# Diagnosis of 2 models"
    assert [line for line in lines if line.startswith("## ")][0] == "## Findings"
    assert "- **✗ failure**: The gradient of decoder layer 1" in text
    assert '\n  *What to do:* `model.residual = "b2t"`, `"resi-dual"` or `"pre-ln"`; or `schedule.' in text
    assert f"\nNot checked:\n\n- unstable, vanished: {NEEDS_TRAINING}\n" in text
    assert "▁▂▂▃" in text
    assert "▓▓" in text
    for at, line in enumerate(lines):
        if re.fullmatch(r"\|[:|-]+\|", line):
            columns = line.count("|")
            assert lines[at - 1].count("|") == columns
            assert lines[at - 2] == ""  # or it would not be a table
    assert "\n\n\n" not in text


def test_markdown_escapes_hostile_names() -> None:
    text = diagnosis_page([make("post-ln", name=HOSTILE[2]), hostile()], "md")
    outside = re.sub(r"^(```+).*?^\1$|(`+).*?\2", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)<", outside)
    assert r"\<script\>alert(1)\</script\>" in text
    assert r"\|" in text


def test_the_ending_of_the_file_chooses_the_form(tmp_path: Path) -> None:
    diagnosis = make("b2t")
    save_diagnoses([diagnosis], tmp_path / "deep" / "why.json")
    assert Diagnosis.read(tmp_path / "deep" / "why.json").model_dump_json() == diagnosis.model_dump_json()
    save_diagnoses([diagnosis, make("admin")], tmp_path / "both.json")
    assert [each["name"] for each in json.loads((tmp_path / "both.json").read_text())] == ["b2t", "admin"]
    save_diagnoses([diagnosis], tmp_path / "why.MD")
    assert (tmp_path / "why.MD").read_text().startswith("# Diagnosis: b2t")
    with pytest.raises(UserError, match=r"\.html, \.md, \.json"):
        save_diagnoses([diagnosis], tmp_path / "why.pdf")
    with pytest.raises(UserError, match="no diagnosis"):
        save_diagnoses([], tmp_path / "why.html")


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file"):
        save_diagnoses([make("b2t")], tmp_path / "file" / "why.md")


def test_single_numbers_are_shown_where_there_is_no_figure() -> None:
    names = ("loss", "ln V", "unigram", "targets", "initialised")
    about = make("post-ln").measurements[0].about.model_copy(update={"key": "initial-loss", "title": "The loss"})
    facts = tuple(Fact(name=FactName(name), value=float(at)) for at, name in enumerate(names))
    diagnosis = make("post-ln").model_copy(update={"measurements": (Measurement(about=about, facts=facts),)})
    page = diagnosis_page([diagnosis])
    assert page.index("Single numbers") < page.index("unigram")
    assert "<details" not in page[page.index('id="initial-loss"') :].split("</section>")[0]
