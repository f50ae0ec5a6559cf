"""The reports in a browser: no requests, no errors, every picture visible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from lamina.report.pages.comparison import save_comparison
from lamina.report.pages.diagnosis import save_diagnoses
from support.chromium import Browser
from support.made_diagnoses import hostile, make
from support.made_run_results import CONCLUSIONS, RUNS

pytestmark = pytest.mark.browser
REAL = ("diagnosed", "watched", "compared")
PAGES = ("one", "several", "hostile", "comparison", *REAL)
CONFIG = f"""
extends = "{Path(__file__).parents[1] / "support" / "small.toml"}"
[schedule]
warmup_steps = 5
[train]
steps = 30
validate_every = 10
log_every = 5
[diagnose]
every = 3
"""
PICTURES = "[...document.querySelectorAll('svg[role=img]')].map(each => each.getBoundingClientRect().toJSON())"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("reports")
    save_diagnoses([make("post-ln")], made / "one.html")
    save_diagnoses([make(scheme) for scheme in ("post-ln", "pre-ln", "b2t", "resi-dual")], made / "several.html")
    save_diagnoses([make("pre-ln"), hostile()], made / "hostile.html")
    save_comparison(RUNS, made / "comparison.html", CONCLUSIONS)
    make_real(made)
    return made


def make_real(made: Path) -> None:
    """A small comparison, trained and watched; its page, and those of one run at the start and while it trained."""
    (made / "small.toml").write_text(CONFIG)
    lamina(made, "compare", "small.toml", "--residual", "post-ln,pre-ln", "--output", "compared.html")
    (run, *_) = sorted((made / "runs" / "small-compared").glob("post-ln*"))
    lamina(made, "diagnose", f"{run}/diagnosis/start.json", "--output", "diagnosed.html")
    lamina(made, "diagnose", f"{run}/diagnosis/training.json", "--output", "watched.html")


def lamina(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "lamina", *words]
    ran = subprocess.run(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def ground_and_ink(shot: Path) -> tuple[float, float]:
    """The median lightness of a page, and the lightness that differs most from it."""
    light = image.imread(shot)[..., :3].mean(-1)
    ground = float(np.median(light))
    return ground, float(light.ravel()[np.abs(light - ground).argmax()])


@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_without_errors_and_does_not_scroll_sideways(
    browser: Browser, folder: Path, name: str, dark: bool, width: int
) -> None:
    page = folder / f"{name}.html"
    browser.open(page, width=width, dark=dark)
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith("data:")] == [page.as_uri()]
    pictures = browser.evaluate(PICTURES)
    assert len(pictures) >= (4 if name == "hostile" else 10)
    for picture in pictures:
        assert picture["width"] > 150
        assert picture["height"] > 15
        assert 0 <= picture["left"] <= picture["right"] <= width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "the page itself must not scroll sideways"
    shot = browser.screenshot(folder / f"{name}-{width}-{'dark' if dark else 'light'}.png")
    ground, ink = ground_and_ink(shot)
    assert (ground < 0.15 and ink > 0.8) if dark else (ground > 0.98 and ink < 0.2)


def test_real_pages_show_what_was_measured(browser: Browser, folder: Path) -> None:
    expected = {
        "diagnosed": ("Gradient by layer", "Gradient along the stream", "at the start, mean and standard deviation"),
        "watched": ("Updates over training", "The stream over training", "watched at 10 steps, last at step 30"),
        "compared": ("Gradient by layer", "Gradient along the stream", "validation loss"),
    }
    for name in REAL:
        browser.open(folder / f"{name}.html")
        text = browser.evaluate("document.body.innerText")
        assert all(each in text for each in expected[name]), name
        assert "post-ln" in text


@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ["several", *REAL])
def test_text_in_pictures_is_large_enough_to_read(browser: Browser, folder: Path, name: str, width: int) -> None:
    browser.open(folder / f"{name}.html", width=width)
    heights = browser.evaluate(
        "[...document.querySelectorAll('svg[role=img] text')].map(each => parseFloat(getComputedStyle(each).fontSize)"
        " * each.getScreenCTM().a || 99)"
    )
    assert min(heights) > 7, "in pixels; rotated ones are left out"


def test_hostile_names_run_nothing(browser: Browser, folder: Path) -> None:
    browser.open(folder / "hostile.html")
    assert browser.evaluate("document.querySelectorAll('script, img, iframe').length") == 0
    assert "<script>alert(1)</script>" in browser.evaluate("document.body.innerText")
    assert not any(event["method"] == "Page.javascriptDialogOpening" for event in browser.events)


@pytest.mark.parametrize("name", ["comparison", *REAL])
def test_ids_are_unique_to_a_browser_too(browser: Browser, folder: Path, name: str) -> None:
    browser.open(folder / f"{name}.html")
    count = "new Set([...document.querySelectorAll('[id]')].map(each => each.id)).size"
    assert browser.evaluate(count) == browser.evaluate("document.querySelectorAll('[id]').length")
    broken = (
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(each => !document.querySelector(each.hash)).length"
    )
    assert browser.evaluate(broken) == 0


def test_printed_pages_are_white_in_dark_mode_too(browser: Browser, folder: Path) -> None:
    browser.open(folder / "several.html", width=794, dark=True, media="print")
    ground, ink = ground_and_ink(browser.screenshot(folder / "several-print.png"))
    assert ground > 0.98
    assert ink < 0.2
    assert browser.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.print(folder / "several.pdf").read_bytes().startswith(b"%PDF")


def test_tables_open_without_a_script(browser: Browser, folder: Path) -> None:
    browser.open(folder / "several.html", width=390)
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert browser.evaluate("Math.min(...[...document.querySelectorAll('table')].map(each => each.offsetHeight))") > 20
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390, "wide tables scroll on their own"
