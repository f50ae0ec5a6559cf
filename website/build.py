"""Builds the site: gathers the documents, generates pages from the code, and runs MkDocs.

    python website/build.py [--sample] [--output build/site]

The fingerprints of the gallery and the examples of the diagnosis are measured at each build. With `--sample` only one
of each is, and the other figures are empty or missing: that is for checking the pages, not for reading.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from decision_page import fill
from diagnosis_pages import checks_page, measures_page
from fingerprints import DEPTHS, QUANTITIES, Fingerprint, measure
from gallery import write_gallery
from lamina import residual
from lamina.studies.ledger import read_ledger
from lamina.studies.publish import choose_results
from reference import api_page

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
MOVED = {"../CONTRIBUTING.md": "contributing.md", "docs/": ""}
"""How links between documents change in the site."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", action="store_true", help="measure one of each kind; for checking the pages")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    arguments = parser.parse_args()
    schemes, examples = (["b2t"], ["dead", "dead-units"]) if arguments.sample else (residual.names(), None)
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        gather(pages)
        write_gallery(pages / "gallery", fingerprints(schemes))
        decision = pages / "which-scheme.md"
        results = choose_results(read_ledger(ROOT / "docs" / "ledger"))
        decision.write_text(fill(decision.read_text(encoding="utf-8"), results), encoding="utf-8")
        made = {"api": api_page(), "measures": measures_page(examples), "checks": checks_page(examples)}
        for name, text in made.items():
            (pages / f"{name}.md").write_text(text, encoding="utf-8")
        config = Path(folder) / "mkdocs.yml"
        config.write_text(complete_config(pages, arguments.output.resolve()), encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(config)]
        subprocess.run(command, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    (arguments.output / "404.html").unlink()  # a page for servers, whose links do not work on disk
    print(f"The site: {arguments.output / 'index.html'}")


def fingerprints(chosen: list[str]) -> dict[str, Fingerprint]:
    found = {}
    for number, name in enumerate(residual.names(), start=1):
        if name in chosen:
            print(f"fingerprint {number} of {len(residual.names())}: {name}", flush=True)
            found[name] = measure(name)
        else:
            nothing = {quantity: {depth: [float("nan")] for depth in DEPTHS} for quantity in QUANTITIES}
            found[name] = Fingerprint(nothing, 0.0)
    return found


def gather(pages: Path) -> None:
    """Copy the documents, the site's own pages and its assets into one folder, with links as they are there."""
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.json", "*.jsonl"))
    shutil.copytree(HERE / "pages", pages, dirs_exist_ok=True)
    shutil.copytree(HERE / "assets", pages / "assets")
    shutil.copyfile(ROOT / "CONTRIBUTING.md", pages / "contributing.md")
    shutil.copyfile(ROOT / "CHANGELOG.md", pages / "changelog.md")
    # Both the ledger's page with filters and its Markdown are named index: the latter has the site's navigation.
    (pages / "ledger" / "index.html").rename(pages / "ledger" / "filter.html")
    for page in pages.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for old, new in MOVED.items():
            text = text.replace(f"]({old}", f"]({new}")
        page.write_text(lists_separated(text.replace("\\<", "&lt;")), encoding="utf-8")
    ledger = pages / "ledger" / "index.md"
    heading, _, rest = ledger.read_text(encoding="utf-8").partition("\n")
    filters = '<a href="filter.html">The same with filters by paper and verdict</a>'
    ledger.write_text(f"{heading}\n\n{filters}\n{rest}", encoding="utf-8")


def lists_separated(text: str) -> str:
    """With an empty line before lists and tables, which MkDocs' Markdown needs and GitHub's does not."""
    lines, is_code = [], False
    for line in text.splitlines():
        starts = re.match(r"([-*] |\d+\. |\|)", line)
        before = lines[-1] if lines else ""
        if starts and not is_code and before.strip() and not re.match(r"([-*] |\d+\. |\||  )", before):
            lines.append("")
        is_code ^= line.startswith("```")
        lines.append(line)
    return "\n".join(lines) + "\n"


def complete_config(pages: Path, output: Path) -> str:
    """The config with the folders of this build, and the gallery's pages in the navigation."""
    config = yaml.safe_load((HERE / "mkdocs.yml").read_text(encoding="utf-8"))
    schemes = [{name: f"gallery/{name}.md"} for name in residual.names()]
    for section in config["nav"]:
        if "Gallery" in section:
            section["Gallery"] = ["gallery/index.md", {"Compare two": "gallery/diff.md"}, *schemes]
    return yaml.safe_dump(config | {"docs_dir": str(pages), "site_dir": str(output)}, sort_keys=False)


if __name__ == "__main__":
    main()
