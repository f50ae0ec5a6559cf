"""The pictures of the documents, as a browser shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import colors, image

from lamina import residual
from lamina.studies.demo import SCHEMES
from support.chromium import Browser

pytestmark = pytest.mark.browser
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"


def test_the_picture_of_the_demo_shows_every_scheme_in_its_colour(browser: Browser, tmp_path: Path) -> None:
    browser.open(PICTURE, width=1100)
    pixels = image.imread(browser.screenshot(tmp_path / "picture.png"))[..., :3]
    for name in SCHEMES:
        colour = residual.find(name).colour
        assert colour is not None
        near = abs(pixels - colors.to_rgb(colour)).max(-1) < 0.05
        assert near.sum() > 50, f"{name} is not visible"
    assert (pixels.min(-1) > 0.98).mean() > 0.6, "the background is white on any page"
