"""Curves as pictures: standalone files, and descriptions in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lamina.diagnosis.measurement import Axes, Series
from lamina.errors import UserError
from lamina.report.figures.curves import draw_panels
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import LineStyle
from lamina.report.pages.comparison import save_comparison
from support.made_run_results import RUNS

STARTS = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


@pytest.mark.parametrize("form", STARTS)
def test_each_form_is_what_its_name_says_and_the_same_every_time(form: str, tmp_path: Path) -> None:
    once, again = tmp_path / f"once.{form}", tmp_path / "deep" / f"again.{form}"
    for file in (once, again):
        save_comparison(RUNS, file)
    assert once.read_bytes().startswith(STARTS[form])
    assert once.read_bytes() == again.read_bytes()


def test_a_standalone_picture_has_a_panel_per_depth_and_one_legend(tmp_path: Path) -> None:
    file = tmp_path / "loss.svg"
    save_comparison(RUNS, file)
    texts = [node.text for node in ElementTree.parse(file).iter() if node.tag.endswith("}text")]
    for once in ("depth 6-6", "depth 12-12", "post-ln", "pre-ln", "b2t"):
        assert texts.count(once) == 1
    assert texts.count("validation loss") == 2, "each panel names its axis"


def test_runs_without_a_curve_have_no_picture(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none of the runs has a loss curve"):
        save_comparison([replace(run, training_loss=(), validation_loss=()) for run in RUNS], tmp_path / "loss.svg")
    assert not list(tmp_path.iterdir())


def test_values_are_shown_under_the_pointer() -> None:
    """A page needs neither script nor network for it."""
    long = Series(x=tuple(range(1, 101)), y=tuple(float(each) for each in range(1, 101)))
    short = Series(x=(1, 2, 3, 4), y=(1.0, float("nan"), float("inf"), 12.5), spread=(0.5, 0.0, 0.0, 0.0))
    style = LineStyle("#D55E00", "-", "o")
    panel = Panel("depth 6", (Curve("post-ln", long, style), Curve("<b>&", short, style)))
    [picture] = draw_panels([panel], Axes(x="step", y="loss"), "p")
    titles = [node.text for node in ElementTree.fromstring(picture).iter("title")]
    assert titles[0] == "post-ln: 1 at 1"
    assert titles[24] == "post-ln: 100 at 100"
    assert titles[25:] == ["<b>&: 1 ± 0.5 at 1", "<b>&: 12.5 at 4"]
    assert "&lt;b&gt;&amp;: 12.5" in picture
