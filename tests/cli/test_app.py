"""The command itself: quick help, its version, and mistakes that end with one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lamina as package
from lamina.cli.app import main
from lamina.errors import FailedElsewhere, UserError
from support.commands import assert_refused, lamina


def test_help_is_quick_because_it_does_not_import_torch() -> None:
    code = "import sys, lamina.cli; assert 'torch' not in sys.modules; assert 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    shown = lamina("--help")
    assert shown.returncode == 0
    assert "schemes" in shown.stdout


def test_version() -> None:
    assert lamina("--version").stdout.strip() == f"lamina {package.__version__}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schemes", "residul"], "did you mean 'resi-dual'"),
        (["scheme"], "No such command 'scheme'"),
        (["schemes", "--colour"], "No such option"),
    ],
)
def test_mistakes_are_one_sentence_and_no_traceback(arguments: list[str], message: str) -> None:
    assert_refused(arguments, message)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("steps: too few"), 2, "lamina: steps: too few\n"),
        (FailedElsewhere("steps: too few"), 2, ""),  # the process that failed says it
        (OSError(28, "No space left on device"), 1, "lamina: [Errno 28] No space left on device\n"),
        (KeyboardInterrupt(), 130, "lamina: interrupted\n"),
    ],
)
def test_the_exit_code_tells_the_kind_of_error(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setitem(main.__globals__, "app", fail)
    monkeypatch.setitem(main.__globals__, "guard_exceptions", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "arguments", [["\x1b]0;title\x07"], ["schemes", "--\x1b[2J"], ["plan", "a.toml", "--gpus", "\x9b2J"]]
)
def test_control_characters_of_wrong_arguments_are_shown_not_sent(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["lamina", *arguments])
    monkeypatch.setitem(main.__globals__, "guard_exceptions", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("lamina: ")
    assert "--help" in said
    assert not set(said) & {"\x1b", "\x07", "\x9b"}
