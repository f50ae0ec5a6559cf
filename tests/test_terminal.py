"""Text from files, names and exceptions on a terminal: control characters are shown, not sent."""

from __future__ import annotations

import io
import re
import sys
import warnings
from pathlib import Path

import pytest
from rich.table import Table

import lamina
from lamina.cli import main
from lamina.report.terminal.runs import show_comparison, show_run
from lamina.runs.summary import RunSummary
from lamina.terminal import guard_exceptions, open_console, visible

EVIL = "a\x1b]0;title\x07b\x1b[2Jc\x9b1md\re\u202ef"


def assert_shown(text: str) -> None:
    assert re.search(r"a␛\]0;title␇?b␛\[2Jc\\x9b1md␍?e\\u202ef", text), text  # rich removes ␇ and ␍
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text), repr(text)


def test_visible() -> None:
    assert_shown(visible(EVIL))
    assert visible("Zeile 1\n\tα — naïve 👩‍🔬 می‌خواهم") == "Zeile 1\n\tα — naïve 👩‍🔬 می‌خواهم"


def test_a_console_shows_text_tables_and_markup() -> None:
    table = Table(box=None)
    table.add_column(EVIL, no_wrap=True)
    table.add_row(EVIL)
    for content in (EVIL, table):
        file = io.StringIO()
        open_console(file=file, width=200).print(content)
        assert_shown(file.getvalue())


def test_rich_still_sends_its_own_colours() -> None:
    file = io.StringIO()
    open_console(file=file, force_terminal=True, markup=True, color_system="standard").print("[red]a\x1b[2Jb[/]")
    assert file.getvalue() == "\x1b[31ma␛[2Jb\x1b[0m\n"


def test_runs_with_hostile_names_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    run = RunSummary(EVIL, "failed", EVIL, 3, None, None, {})
    for show in (lambda: show_run(run), lambda: show_comparison([run], [EVIL])):
        show()
        assert_shown(capsys.readouterr().out)


def test_errors_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    monkeypatch.setattr(sys, "argv", ["lamina", "evaluate", str(tmp_path / EVIL)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert_shown(capsys.readouterr().err)


def test_warnings_and_tracebacks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    guard_exceptions()
    assert_shown(warnings.formatwarning(EVIL, UserWarning, "file.py", 1, ""))  # type: ignore[arg-type]
    sys.excepthook(ValueError, ValueError(EVIL), None)
    assert_shown(capsys.readouterr().err)


def test_nothing_else_writes_to_the_terminal() -> None:
    """`print` and consoles of rich are used in `terminal.py` only, or where a developer prints a generated document."""
    allowed = {"terminal.py", "training/config_reference.py", "studies/calibration.py"}
    allowed |= {"studies/faults/__main__.py", "studies/faults/healthy.py"}
    root = Path(lamina.__file__).parent
    found = [
        f"{path.relative_to(root).as_posix()}: {line.strip()}"
        for path in root.rglob("*.py")
        if path.relative_to(root).as_posix() not in allowed
        for line in path.read_text().splitlines()
        if re.search(r"(?<![\w.])(Console|print|typer\.s?echo)\(|(?<!open_)(?<!\w)secho\(", line)
        and "visible(" not in line
        and "`print(" not in line
    ]
    examples = ["training/callbacks/base.py: print(training.step"]
    version = ['cli/app.py: typer.echo(f"lamina {__version__}")']
    assert [each for each in found if not each.startswith((*examples, *version))] == []
