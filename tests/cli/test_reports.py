"""`lamina diagnose`, `report` and `runs`, as a user calls them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.commands import assert_refused, lamina
from support.trained_runs import trained_run


def test_diagnose_two_configs_side_by_side(tmp_path: Path) -> None:
    arguments = ["prepare", "embedded-translation", "train=['translation:60']", "valid=['translation:9']"]
    arguments += ["test=['translation:9']", "tokenizer.size=400", "--output", "toy"]
    assert lamina(*arguments, cwd=tmp_path).returncode == 0
    sizes = 'num_layers = 2\nmodel_dim = 16\nfeed_forward_dim = 32\nnum_heads = 2\n[data]\nstore = "toy"\n'
    for name, scheme in (("<b>[red]one", "post-ln"), ("two", "pre-ln")):
        (tmp_path / f"{name}.toml").write_text(f'[model]\nresidual = "{scheme}"\n{sizes}')
    few = ["--seeds", "1", "--batches", "1", "--tokens", "40"]
    shown = lamina("diagnose", "<b>[red]one.toml", "two.toml", "model.dropout=0.2", *few, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == "", "quiet where there is no terminal"
    first, second = shown.stdout.index("<b>[red]one: 2-2 encoder-decoder"), shown.stdout.index("two: 2-2")
    assert (
        first
        < shown.stdout.index("gradient norm of encoder layer 1")
        < shown.stdout.index("gradient by layer")
        < second
    )
    assert "why.html" in shown.stdout
    page = (tmp_path / "why.html").read_text()
    assert "&lt;b&gt;[red]one" in page
    assert "<b>[red]" not in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diagnose", "missing.toml"], "missing.toml: no such file"),
        (["diagnose", "missing.toml", "--output", "why.pdf"], "why.pdf: a report is written to a file that ends in"),
        (["diagnose", "."], "neither a run folder"),
    ],
)
def test_diagnose_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert_refused(arguments, message, tmp_path)


def test_report_of_all_in_a_folder(tmp_path: Path) -> None:
    """As after a comparison: a page among the runs, one of them moved aside; and a name that looks like markup."""
    run = trained_run("translation", tmp_path)
    for name in ("[red]x", "[red]x.former1"):
        shutil.copytree(run, run.parent / name, symlinks=True)
    (run.parent / "report.html").touch()
    given = sorted(str(path) for path in run.parent.iterdir())
    assert len(given) == 4
    shown = lamina("report", *given, "--output", "all.md", "--title", "All", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "\n[red]x " in shown.stdout
    assert f"Left out, as files or as runs that were replaced: {given[1]}, {given[2]}" in shown.stdout
    assert shown.stdout.endswith("The report: all.md\n")
    page = (tmp_path / "all.md").read_text()
    assert page.startswith("# All\n")
    assert "| pre-ln" in page
    twice = lamina("report", str(run), f"{run}/", cwd=tmp_path)
    assert twice.returncode == 2
    assert "one run given twice would count as two seeds" in twice.stderr
    none = lamina("report", str(run.parent / "report.html"), cwd=tmp_path)
    assert none.returncode == 2
    assert "there is no run to report" in none.stderr
