"""The commands, called as from a shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lamina import api, cli, residual
from lamina.report.comparison_report import ComparisonReport
from support.trained_runs import trained_run


def lamina(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "lamina", *arguments], capture_output=True, text=True, cwd=cwd)


def test_help_is_quick_because_it_does_not_import_torch() -> None:
    code = "import sys, lamina.cli; assert 'torch' not in sys.modules; assert 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    shown = lamina("--help")
    assert shown.returncode == 0
    assert "schemes" in shown.stdout


def test_version() -> None:
    import lamina as package

    assert lamina("--version").stdout.strip() == f"lamina {package.__version__}"


def test_schemes_lists_all_and_shows_one() -> None:
    listed = lamina("schemes").stdout
    assert all(f"{name} " in listed for name in residual.names())
    assert "W[l,k]" in listed, "brackets are text, not markup"
    shown = lamina("schemes", "admin").stdout
    for expected in ("x ← LN(ω⊙x + f(x))", "omega = 'profile'", "Liu et al. 2020", "⊙ω", "def reference"):
        assert expected in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schemes", "residul"], "did you mean 'resi-dual'"),
        (["scheme"], "No such command 'scheme'"),
        (["schemes", "--colour"], "No such option"),
    ],
)
def test_mistakes_are_one_sentence_and_no_traceback(arguments: list[str], message: str) -> None:
    failed = lamina(*arguments)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


def test_demo_into_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    failed = lamina("demo", "--folder", str(tmp_path / "taken"))
    assert failed.returncode == 2
    assert "taken" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_prepare_lists_shows_and_prepares(tmp_path: Path) -> None:
    listed = lamina("prepare").stdout
    assert "embedded-translation" in listed
    assert "wikitext-103" in listed
    assert "CC BY-SA" in lamina("prepare", "wikitext-103", "--show").stdout
    arguments = ["prepare", "embedded-translation", "train=['translation:60']", "valid=['translation:9']"]
    arguments += ["test=['translation:9']", "tokenizer.size=400", "--output", "toy"]
    made = lamina(*arguments, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "60" in made.stdout
    assert (tmp_path / "toy" / "manifest.json").exists()
    assert made.stderr == "", "quiet where there is no terminal"
    again = lamina(*arguments, "tokenizer.size=500", cwd=tmp_path)
    assert again.returncode == 2
    assert "option tokenizer" in again.stderr
    assert lamina(*arguments, "tokenizer.size=500", "--replace", cwd=tmp_path).returncode == 0
    assert "as it was made" in lamina("prepare", "toy", "--verify", cwd=tmp_path).stdout
    tokens = tmp_path / "toy" / "train" / "source.tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1] + b"\xff")
    changed = lamina("prepare", "toy", "--verify", cwd=tmp_path)
    assert changed.returncode == 1
    assert "source.tokens.npy: changed" in changed.stdout


def test_prepare_from_a_file_lists_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\n\nthree four\nfive\n")
    (tmp_path / "b.txt").write_text("eins zwei\nleer\ndrei vier\nfünf\n")
    (tmp_path / "own.toml").write_text('output = "store"\ntrain = ["a.txt", "b.txt"]\n[tokenizer]\nsize = 300\n')
    made = lamina("prepare", "own.toml", "--dropped", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "1 empty" in made.stdout
    assert "\t2\tempty" in made.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "embeded-text", "--output", "x"], "did you mean 'embedded-text'"),
        (["prepare", "embedded-text"], "say where the store goes"),
        (["prepare", "missing.toml"], "missing.toml: no such file"),
        (["prepare", "gigaword", "--output", "x"], "Lamina does not download by itself"),
        (["prepare", "embedded-text", "tokenizer.siz=3", "--output", "x"], "did you mean 'size'"),
    ],
)
def test_prepare_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    failed = lamina(*arguments, cwd=tmp_path)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


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
    failed = lamina(*arguments, cwd=tmp_path)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


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


def test_a_comparison_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lamina train own.toml` makes runs/own a run folder."""
    (tmp_path / "own.toml").write_text("[model]\nnum_layers = 1\n")
    called = []

    def play(cells: Any, folder: Path, report: Path, **options: Any) -> ComparisonReport:
        called.append((folder, report))
        return ComparisonReport([], [])

    monkeypatch.setattr(api, "compare_cells", play)
    monkeypatch.setattr(ComparisonReport, "conclusions", [])
    cli.compare(str(tmp_path / "own.toml"), "b2t")
    api.compare(tmp_path / "own.toml", ["b2t"])
    assert called == [(Path("runs/own-compared"), Path("runs/own-compared/report.html"))] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "nowhere"], "nowhere: not a run folder"),
        (["evaluate", "nowhere", "--beam", "4"], "nowhere: not a run folder"),
        (["generate", "nowhere", "beam"], "'beam' is not of the form key=value"),
        (["generate", "nowhere", "--beam", "0"], "Invalid value for '--beam'"),
    ],
)
def test_generate_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    failed = lamina(*arguments, cwd=tmp_path)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr
