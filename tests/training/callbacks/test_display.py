"""The display of a run's progress."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.tasks.metric_tables import MetricRow, MetricTable
from lamina.training.callbacks import display as module
from lamina.training.callbacks.display import Display
from lamina.training.config import TrainOptions
from lamina.training.distributed.world import ALONE
from lamina.training.length import Position
from lamina.training.loop import Training
from support.small_runs import config_for

VALUES: dict[str, Any] = {"loss": 2.5, "nll": 2.0, "learning_rate": 0.00125, "tokens_per_second": 12345.6}


def showing(terminal: bool) -> tuple[Display, io.StringIO]:
    display, shown = Display(), io.StringIO()
    display.console = Console(file=shown, force_terminal=terminal, width=140, highlight=False, soft_wrap=True)
    return display, shown


def at_step(step: int, total: int) -> Any:
    """The attributes of a training that a display reads."""
    batches = SimpleNamespace(attention_padding=lambda: 0.25)
    rows = (MetricRow("de", ("bleu en-de", "bleu de-en")), MetricRow("fr", ("bleu en-fr", "bleu fr-en")))
    tables = (MetricTable("BLEU by language", "language", ("from en", "into en"), rows),)
    position = property(lambda training: Position(training.step, training.step // 20, training.step % 20, 20))
    return type("Training", (SimpleNamespace,), {"position": position})(
        step=step,
        config=SimpleNamespace(train=TrainOptions(steps=total)),
        batches=batches,
        task=SimpleNamespace(metric_tables=lambda: tables),
    )


def test_a_terminal_shows_a_bar_with_everything_and_the_time_left() -> None:
    display, shown = showing(terminal=True)
    training = at_step(3, total=100)
    display.on_start(training)
    for training.step in (4, 5):
        display.on_step(training, VALUES)
    assert display._bar is not None
    display._bar.refresh()
    display.on_end(training)
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.getvalue())
    assert "5/100 epoch 0.25  loss 2.500  ppl 7.4  lr 1.25e-03  12,346 tok/s" in text
    assert re.search(r"tok/s (\d:\d\d:\d\d|-:--:--)", text), "time left"
    assert "\x1b[" in shown.getvalue()


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    display, shown = showing(terminal=False)
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    training = at_step(0, total=2000)
    display.on_start(training)
    for training.step in range(1, 31):
        display.on_step(training, VALUES)
        now += 1.0
    display.on_validation(training, {"loss": 2.2, "nll": 2.0, "bleu": 12.345})
    display.note("something")
    assert shown.getvalue().splitlines() == [
        "padding: 25.0% of the attention scores, nothing elsewhere",
        *(
            f"step {at}/2,000  epoch {epoch}  loss 2.500  ppl 7.4  lr 1.25e-03  12,346 tok/s{left}"
            for at, epoch, left in (
                (1, "0.05", ""),
                (11, "0.55", "  30 min 8 s left"),
                (21, "1.05", "  31 min 25 s left"),
            )
        ),
        "step 30  epoch 1.50  validation nll 2.0000  perplexity 7.39  bleu 12.35",
        "something",
    ]


def test_metrics_of_a_table_have_a_line_for_each_column() -> None:
    display, shown = showing(terminal=False)
    values = {"nll": 2.0, "bleu en-de": 20.0, "bleu de-en": 25.0, "bleu en-fr": 30.0, "bleu": 25.0}
    display.on_validation(at_step(30, total=60), values)
    assert shown.getvalue().splitlines() == [
        "step 30  epoch 1.50  validation nll 2.0000  perplexity 7.39  bleu 25.00",
        "  from en:  de 20.00  fr 30.00",
        "  into en:  de 25.00",
    ]


def test_quiet_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    display, training = Display(quiet=True), at_step(1, total=2)
    display.on_start(training)
    display.on_step(training, VALUES)
    display.note("something")
    display.on_end(training)
    assert capfd.readouterr() == ("", "")


def test_a_run_shows_its_steps_and_validations(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"steps": 3, "validate_every": 2})
    display, shown = showing(terminal=False)
    with RunFolder(tmp_path / "run").claim() as folder:
        Training(config, Store.open(config.data.store or ""), folder, ALONE, display).run()
    lines = shown.getvalue().splitlines()
    assert re.fullmatch(r"padding: [\d.]+% of the attention scores, nothing elsewhere", lines[0])
    numbers = r"loss \d+\.\d{3}  ppl [\d.]+  lr \d\.\d\de-\d\d  [\d,]+ tok/s"
    assert re.fullmatch(rf"step 1/3  epoch 0\.\d\d  {numbers}", lines[1])
    assert [line.split("  ")[0] for line in lines if "validation nll" in line] == ["step 2", "step 3"]
