"""The pictures of the documents, as a browser shows them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from matplotlib import colors, image

from lamina import residual
from lamina.studies.demo import SCHEMES

pytestmark = pytest.mark.browser
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "gradient-by-layer.svg"


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine")
    return found


def screenshot(chromium: str, page: Path, target: Path, profile: Path) -> None:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags += [f"--user-data-dir={profile}", f"--screenshot={target}", "--window-size=1100,500"]
    subprocess.run([chromium, *flags, page.as_uri()], check=True, capture_output=True, timeout=120)


def test_the_gradient_picture_shows_every_scheme_in_its_colour(chromium: str, tmp_path: Path) -> None:
    shot = tmp_path / "picture.png"
    screenshot(chromium, PICTURE, shot, tmp_path / "profile")
    pixels = image.imread(shot)[..., :3]
    for name in SCHEMES:
        colour = residual.find(name).colour
        assert colour is not None
        near = abs(pixels - colors.to_rgb(colour)).max(-1) < 0.05
        assert near.sum() > 200, f"{name} is not to be seen"
    assert (pixels.min(-1) > 0.98).mean() > 0.6, "on a white ground, whatever the page's own"
