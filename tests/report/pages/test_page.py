"""Rendering: the form follows from the file's ending, text is escaped, and files are written or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from lamina.errors import UserError
from lamina.report.pages.page import _sentence, form_of, render, write_text

CONTENT = {
    "title": "<b> & *c*",
    "models": (),
    "changes": None,
    "overview": None,
    "sections": (),
    "not_measured": (),
    "cards": (),
}


@pytest.mark.parametrize(("name", "form"), [("a.html", "html"), ("a.HTM", "html"), ("a.md", "md")])
def test_the_ending_says_the_form(name: str, form: str) -> None:
    assert form_of(Path(name)) == form


def test_other_endings_are_refused_unless_they_are_allowed() -> None:
    with pytest.raises(UserError, match=r"^a\.json: .* one of \.html, \.md$"):
        form_of(Path("a.json"))
    assert form_of(Path("a.json"), others=("json",)) == "json"
    with pytest.raises(UserError, match=r"one of \.html, \.md, \.json$"):
        form_of(Path("a.pdf"), others=("json",))


def test_both_forms_escape_their_text() -> None:
    page = render("diagnosis", "html", **CONTENT)
    assert "<title>&lt;b&gt; &amp; *c*</title>" in page
    assert "<script" not in page
    text = render("diagnosis", "md", **CONTENT)
    assert text.startswith("# \\<b\\> \\& \\*c\\*\n")
    assert text.endswith("\n")
    assert "\n\n\n" not in text


def test_content_that_a_template_needs_is_not_left_out_silently() -> None:
    with pytest.raises(UndefinedError, match="title"):
        render("diagnosis", "md", **{name: value for name, value in CONTENT.items() if name != "title"})


def test_files_are_written_into_new_folders_as_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "new" / "deep" / "page.md"
    write_text(file, "ü " + os.fsdecode(b"\xff"))  # as in the name of a file that is not UTF-8
    assert file.read_bytes() == "ü ?".encode()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match=r"taken.*cannot be created.*choose another place"):
        write_text(tmp_path / "taken" / "page.md", "")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("the loss falls", "The loss falls."),
        ("β₂ is unusual", "β₂ is unusual."),
        ("lm_head is tied", "lm_head is tied."),
        ("h.0.attn is saturated", "h.0.attn is saturated."),
        ("frozen: layer 3", "Frozen: layer 3."),
        ("done!", "Done!"),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_symbol_or_a_path(text: str, sentence: str) -> None:
    assert _sentence(text) == sentence
