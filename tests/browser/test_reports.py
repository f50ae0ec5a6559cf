"""The reports as a browser shows them: nothing leaves the page, nothing complains, every picture is to be seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from browser.chromium import Browser
from lamina.report.comparison import save_comparison
from lamina.report.diagnosis import save
from made_diagnoses import hostile, make
from made_stories import SENTENCES, STORIES

pytestmark = pytest.mark.browser
PAGES = ("one", "several", "hostile", "comparison")
PICTURES = "[...document.querySelectorAll('svg[role=img]')].map(each => each.getBoundingClientRect().toJSON())"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("reports")
    save([make("post-ln")], made / "one.html")
    save([make(scheme) for scheme in ("post-ln", "pre-ln", "b2t", "resi-dual")], made / "several.html")
    save([make("pre-ln"), hostile()], made / "hostile.html")
    save_comparison(STORIES, made / "comparison.html", SENTENCES)
    return made


def ground_and_ink(shot: Path) -> tuple[float, float]:
    """The commonest lightness, and the most different one."""
    light = image.imread(shot)[..., :3].mean(-1)
    ground = float(np.median(light))
    return ground, float(light.ravel()[np.abs(light - ground).argmax()])


@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(browser: Browser, folder: Path, name: str, dark: bool, width: int) -> None:
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


@pytest.mark.parametrize("width", [1280, 390], ids=["wide", "narrow"])
def test_letters_in_pictures_can_be_read(browser: Browser, folder: Path, width: int) -> None:
    browser.open(folder / "several.html", width=width)
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


def test_ids_are_unique_to_a_browser_too(browser: Browser, folder: Path) -> None:
    browser.open(folder / "comparison.html")
    count = "new Set([...document.querySelectorAll('[id]')].map(each => each.id)).size"
    assert browser.evaluate(count) == browser.evaluate("document.querySelectorAll('[id]').length")
    broken = (
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(each => !document.querySelector(each.hash)).length"
    )
    assert browser.evaluate(broken) == 0


def test_paper_is_white_even_for_who_likes_it_dark(browser: Browser, folder: Path) -> None:
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
