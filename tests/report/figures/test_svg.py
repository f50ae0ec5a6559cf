"""Inline pictures: no style sheet, no namespace, ids of their own, and the colours of the page."""

from __future__ import annotations

from xml.etree import ElementTree

import matplotlib as mpl

from lamina.report.figures.svg import INK, RULE, canvas, drawing, inline


def picture(prefix: str = "one", label: str = "A line.", text: str = "") -> str:
    with drawing():
        figure, axes = canvas(2.0, 1.0, left=0.3, below=0.2)
        axes.plot([0, 1, 2], [0.123456789, 1, 0], color="#336699")
        axes.grid()
        axes.set_title(text)
        return inline(figure, prefix, label)


def test_the_picture_has_nothing_that_reaches_beyond_it() -> None:
    written = picture()
    assert written.startswith("<svg viewBox=")
    for foreign in ("xmlns", "<style", "<metadata", "font-family", "<?xml", "DOCTYPE"):
        assert foreign not in written
    ElementTree.fromstring(written)


def test_ids_differ_between_pictures_and_every_reference_has_its_target() -> None:
    for prefix in ("one", "two"):
        root = ElementTree.fromstring(picture(prefix))
        ids = {each.get("id") for each in root.iter() if each.get("id")}
        assert ids
        assert all(str(each).startswith(f"{prefix}-") for each in ids)
        used = {each.get("href", "")[1:] for each in root.iter() if each.get("href")}
        used |= {each.get("clip-path", "")[5:-1] for each in root.iter() if each.get("clip-path")}
        assert used == ids, "an id that nothing uses is left out"


def test_the_colours_of_text_and_grid_are_the_page_s_and_those_of_lines_their_own() -> None:
    written = picture()
    assert INK not in written
    assert RULE not in written
    assert "currentColor" in written
    assert "var(--rule)" in written
    assert "#336699" in written


def test_text_stays_text_and_is_escaped() -> None:
    written = picture(text="<script> $a_b$")
    assert "&lt;script&gt; $a_b$</text>" in written
    assert "<script" not in written


def test_a_label_describes_the_picture_and_one_without_is_skipped_by_screen_readers() -> None:
    assert 'role="img" aria-label="A &quot;line&quot;."' in picture(label='A "line".')
    assert 'aria-hidden="true"' in picture(label="")
    assert 'role="img"' not in picture(label="")


def test_the_same_figure_is_the_same_text() -> None:
    assert picture() == picture()


def test_the_style_is_set_only_while_drawing() -> None:
    before = mpl.rcParams["grid.color"]
    with drawing(grid_color="#abcdef"):
        assert mpl.rcParams["grid.color"] == "#abcdef"
        assert mpl.rcParams["svg.fonttype"] == "none"
    assert mpl.rcParams["grid.color"] == before
    assert mpl.rcParams["svg.fonttype"] != "none"


def test_margins_are_in_inches_whatever_the_size() -> None:
    for width, height in ((2.0, 1.0), (5.0, 3.0)):
        _, axes = canvas(width, height, left=0.5, below=0.25)
        box = axes.get_position()
        assert (round(box.x0 * width, 6), round(box.y0 * height, 6)) == (0.5, 0.25)
        assert round((1 - box.x1) * width, 6) == 0.08
