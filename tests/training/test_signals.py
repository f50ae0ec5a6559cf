"""Signals at any moment of a run: it saves, stops, and reports the signal."""

from __future__ import annotations

import signal
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.signals import SIGNALS, Interrupts
from support.small_runs import assert_same, config_for, weights

SAVING = [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]


def test_signals_are_remembered_and_handlers_put_back() -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    said: list[str] = []
    for number in SAVING:
        with Interrupts(said.append) as interrupts:
            assert interrupts.number == 0
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGTERM)
            assert interrupts.number == number, "the first one"
    assert [signal.getsignal(each) for each in SIGNALS] == before
    assert said[0] == "SIGTERM: stopping when this step is done and saved; Ctrl-C stops at once"
    assert len(said) == 6


def test_ctrl_c_ends_the_process_at_once_after_another_signal() -> None:
    with Interrupts(lambda text: None) as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.number == signal.SIGINT


def test_a_signal_amid_a_printed_line_is_remembered_all_the_same() -> None:
    def busy(text: str) -> None:
        raise RuntimeError("reentrant call")

    with Interrupts(busy) as interrupts:
        signal.raise_signal(signal.SIGUSR1)
    assert interrupts.number == signal.SIGUSR1


@pytest.mark.parametrize("number", SAVING)
def test_a_signal_while_a_run_starts_stops_it_before_the_first_step(
    number: signal.Signals, stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_for("translation", stores, train={"steps": 3})
    Run(config, tmp_path / "whole").train(quiet=True)
    with monkeypatch.context() as patch:
        during(patch, "lamina.training.loop.build_optimiser", number)
        status = Run(config, tmp_path / "parts").train(quiet=True)
    assert (status.state, status.step, status.reason) == ("stopped", 0, number.name)
    assert Run(config, tmp_path / "parts").train(quiet=True).step == 3
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


def test_a_signal_in_the_last_evaluation_lets_it_end(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lamina.tasks.base.Task.unigram_nll", lambda *given: 1e9)
    during(monkeypatch, "lamina.tasks.translation.Translation.evaluate", signal.SIGTERM)
    status = Run(config_for("translation", stores, train={"steps": 2}), tmp_path / "run").train(quiet=True)
    assert (status.state, status.step) == ("finished", 2)
    assert any("final_bleu" in line for line in RunFolder(tmp_path / "run").metrics.read())


def during(patch: pytest.MonkeyPatch, name: str, number: signal.Signals) -> None:
    """A signal comes whenever that function is called."""
    function = resolve_name(name)

    def disturbed(*given: Any, **options: Any) -> Any:
        signal.raise_signal(number)
        return function(*given, **options)

    patch.setattr(name, disturbed)


def test_a_program_can_ask_for_the_same() -> None:
    with Interrupts(lambda text: None) as interrupts:
        interrupts.request()
        signal.raise_signal(signal.SIGUSR1)
    assert interrupts.number == signal.SIGTERM, "the first one"
