"""The pictures of the README: the page of a sick model's diagnosis, and three figures of the ledger.

    python website/readme_pictures.py

writes docs/images/diagnosis.png (with Chromium, if it is installed) and docs/images/ledger-*.svg. Repeat it when
the ledger has changed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from lamina.files.atomic import write_file
from lamina.report.figures.curves import draw_standalone
from lamina.report.pages.diagnosis import save_diagnoses
from lamina.studies.ledger import read_ledger
from lamina.studies.papers import STUDIES
from lamina.studies.publish import choose_results
from sick_and_healthy import OF_CHECK, diagnosed

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
STUDIES_SHOWN = {"b2t-fig3": "decoder", "admin-fig4": "", "residual-fig3": ""}
"""The studies whose first figure is shown, and a word in the title of the panel."""
WIDTH, HEIGHT = 900, 640
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1")


def main() -> None:
    draw_ledger()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("docs/images/diagnosis.png is left as it was: there is no Chromium")
        return
    picture_diagnosis(browser)


def draw_ledger() -> None:
    """The figures of the studies that have a result."""
    results = choose_results(read_ledger(ROOT / "docs" / "ledger"))
    for name, word in STUDIES_SHOWN.items():
        if name not in results:
            print(f"{name} has no result in docs/ledger")
            continue
        exhibits = STUDIES[name]().exhibits(results[name].results)
        shown = next(each for each in exhibits if each.panels and each.axes)
        panel = next(each for each in shown.panels if word in each.title.lower())
        assert shown.axes is not None
        write_file(IMAGES / f"ledger-{name}.svg", draw_standalone([panel], shown.axes, "svg"))


def picture_diagnosis(browser: str) -> None:
    """The top of the page of the deep post-norm model, as a browser shows it."""
    sick, _ = diagnosed(OF_CHECK["amplification"])
    named = sick.model_copy(update={"name": "a language model of 18 post-norm layers"})
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "why.html", Path(folder) / "diagnosis.png"
        save_diagnoses([named], page)
        command = [browser, *FLAGS, f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        write_file(IMAGES / "diagnosis.png", picture.read_bytes())


if __name__ == "__main__":
    main()
