"""The documentation site: its formulas and facts, and that the built pages are complete and need no network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import unquote

import pytest

from lamina import residual
from lamina.residual.card import card

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "website"))
EVIDENCE = tomllib.loads((Path(residual.__file__).parent / "evidence.toml").read_text(encoding="utf-8"))


def test_every_scheme_has_evidence_with_a_source() -> None:
    assert sorted(EVIDENCE) == sorted(residual.names())
    for name, facts in EVIDENCE.items():
        assert set(facts) == {"initialisation", "released", "for", "against"}, name
        assert facts["initialisation"].endswith("."), name
        for model in facts["released"]:
            assert re.search(r"20\d\d|modeling_\w+\.py", model), f"{name}: {model} has no source"
        for sentence in [*facts["for"], *facts["against"]]:
            assert re.search(r"20\d\d|docs/|Its authors|Keeps", sentence), f"{name}: {sentence} has no source"


@pytest.mark.parametrize("name", residual.names())
def test_equations_are_mathml(name: str) -> None:
    from formulas import to_mathml  # type: ignore[import-not-found]

    for line in card(residual.find(name)).equation.splitlines():
        shown = ElementTree.fromstring(to_mathml(line))
        assert re.sub(r"[\s_^{}-]", "", "".join(shown.itertext())) != "" or not line.strip()


def test_scripts_and_words() -> None:
    from formulas import to_mathml

    shown = to_mathml("x ← LN(x_in + ω⊙x₀),  α = (2N)^1/4    end: x")
    assert '<msub><mi>x</mi><mrow><mi mathvariant="normal">in</mi></mrow></msub>' in shown
    assert "<msub><mi>x</mi><mrow><mn>0</mn></mrow></msub>" in shown
    assert '<msup><mo stretchy="false">)</mo><mrow><mn>1</mn><mo>/</mo><mn>4</mn></mrow></msup>' in shown
    assert '<mi mathvariant="normal">LN</mi>' in shown
    assert "<mtext>end</mtext>" in shown


@pytest.mark.parametrize("name", residual.names())
def test_the_loop_to_paste_runs(name: str) -> None:
    from gallery import loop_of  # type: ignore[import-not-found]

    found: dict[str, object] = {}
    exec(loop_of(name), found)
    assert found["y"].shape == (2, 10, 64)  # type: ignore[attr-defined]


def test_costs_are_read_from_the_benchmarks() -> None:
    from gallery import measured_costs

    assert {"pre-ln", "b2t", "resi-dual", "admin", "deep-norm"} <= set(measured_costs())


def test_every_check_and_measure_has_examples() -> None:
    from lamina.diagnosis.checks import all_checks
    from lamina.diagnosis.measures import all_measures
    from sick_and_healthy import OF_CHECK, examples_of  # type: ignore[import-not-found]

    assert sorted(OF_CHECK) == sorted(check.key for check in all_checks())
    for measure in all_measures():
        assert examples_of(measure.key).sick


def test_verdicts_and_figures_of_the_ledger_are_filled_in() -> None:
    from decision_page import fill  # type: ignore[import-not-found]
    from lamina.studies.ledger import read_ledger
    from lamina.studies.publish import choose_results

    results = choose_results(read_ledger(ROOT / "docs" / "ledger"))
    text = fill("{{ claims B-04 }}\n\n{{ figure b2t-fig3 }}\n", results)
    assert "decay exponentially" in text
    assert "ledger/b2t-fig3.html#B-04" in text
    assert "<svg" in text
    nothing = fill("{{ claims B-04 }}\n\n{{ figure b2t-fig3 }}\n", {})
    assert "not run" in nothing
    assert "<svg" not in nothing
    with pytest.raises(KeyError):
        fill("{{ claims Z-99 }}", results)


def build(folder: Path, *arguments: str) -> Path:
    pytest.importorskip("material")
    command = [sys.executable, str(ROOT / "website" / "build.py"), "--output", str(folder / "site"), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder / "site"


def problems(site: Path) -> list[str]:
    """Links and files of the pages that do not exist, and what a page would load from the network."""
    found = []
    for page in site.rglob("*.html"):
        if page.name == "404.html" or page.parent.name == "ledger" and page.name != "index.html":
            continue
        text = page.read_text(encoding="utf-8")
        for kind, target in re.findall(r'\b(src|href)="([^"]*)"', text):
            path = unquote(target.partition("#")[0])
            if re.match(r"https?:", target):
                found += [f"{page.name} loads {target}"] if kind == "src" or ".css" in target else []
            elif path and not path.startswith(("data:", "mailto:")) and not (page.parent / path).exists():
                found.append(f"{page.name}: {target}")
    return found


@pytest.mark.documented
def test_pages_are_complete(tmp_path: Path) -> None:
    """One scheme is measured; MkDocs itself fails on a broken link between documents."""
    site = build(tmp_path, "--sample")
    assert problems(site) == []
    page = (site / "gallery" / "b2t.html").read_text(encoding="utf-8")
    assert page.count("<polyline") == 9
    assert "<math" in page
    assert "residual = " in re.sub("<[^>]*>", "", page)
    assert (site / "search" / "search_index.js").exists()


@pytest.mark.nightly
def test_examples_are_sick_and_healthy() -> None:
    from lamina.diagnosis.checks import all_checks
    from sick_and_healthy import OF_CHECK, diagnosed

    for check in all_checks():
        sick, healthy = (
            {each.severity for each in diagnosis.findings if each.check == check.key}
            for diagnosis in diagnosed(OF_CHECK[check.key])
        )
        assert sick & {"warning", "failure"}, check.key
        assert healthy == {"fine"}, check.key


@pytest.mark.nightly
def test_every_scheme_is_measured(tmp_path: Path) -> None:
    site = build(tmp_path)
    pages = {name: (site / "gallery" / f"{name}.html").read_text(encoding="utf-8") for name in residual.names()}
    without = {name for name, page in pages.items() if "have no gradient" in page}
    assert without == {"re-zero", "re-zero-post-ln"}, "every branch of these begins with the factor 0"
