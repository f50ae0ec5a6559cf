"""The training benchmark on tiny sizes, with contenders in threads; a library that fails is a row."""

from __future__ import annotations

import json
import multiprocessing
import os
import runpy
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = ["model_dim=16", "feed_forward_dim=32", "num_heads=2", "num_layers=1", "vocab_size=50"]
PEERS = ("Hugging Face Marian", "x-transformers", "torch.nn.Transformer")


class InThread(Thread):
    """In place of a process: the same code, without the seconds that a fresh Python takes."""

    def __init__(self, target: Any, args: tuple[Any, ...]) -> None:
        own = Connection(os.dup(args[0].fileno()))  # the other end is closed, as after a process has started
        super().__init__(target=target, args=(own, *args[1:]), daemon=True)

    def kill(self) -> None: ...


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    import contenders

    context = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=InThread)
    monkeypatch.setattr(contenders, "get_context", lambda kind: context)
    monkeypatch.setattr(contenders, "SHAPES", ((8, 8, 8),))
    monkeypatch.setattr(contenders, "keep_freed_memory", lambda: True)
    monkeypatch.setattr(contenders, "ignore_interruptions", lambda: None)  # a thread has no signal handlers


def run(monkeypatch: pytest.MonkeyPatch, output: Path, *words: str) -> dict[str, Any]:
    sizes = ["--threads", "1", "--rounds", "3", "--quick", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["training.py", *sizes, *words, *TINY])
    runpy.run_path(str(BENCHMARKS / "training.py"), run_name="__main__")
    return json.loads(output.read_text())


@pytest.mark.usefixtures("in_threads")
def test_contenders_are_timed_and_compared_and_one_that_is_missing_is_a_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fairseq", None)
    picture = tmp_path / "training.svg"
    peers = ["--peers", "torch.nn.Transformer,fairseq"]
    found = run(monkeypatch, tmp_path / "result.json", "--rows", "narrow", *peers, "--picture", str(picture))
    own, peer, missing = found["narrow"]["contenders"].values()
    assert list(found["narrow"]["contenders"]) == ["Lamina", "torch.nn.Transformer", "fairseq"]
    assert "fairseq" in missing["failure"]
    for each in (own, peer):
        assert len(each["seconds"]) == len(each["gemm"]) == 3
        assert each["beside"] == own["seconds"]
        assert each["memory"] > 2**20
    assert own["parameters"] == pytest.approx(peer["parameters"], rel=0.05)
    shown = capsys.readouterr().out
    assert "relative to torch.nn.Transformer: " in shown
    assert "fairseq: " in shown
    assert "failed" in shown
    assert picture.read_text().lstrip().startswith("<?xml")


@pytest.mark.usefixtures("in_threads")
def test_rows_are_added_to_those_of_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    run(monkeypatch, output, "--rows", "lm", "--peers", "plain SDPA")
    found = run(monkeypatch, output, "--rows", "narrow,lm", "--peers", "")
    assert list(found) == ["lm", "narrow"]
    assert list(found["lm"]["contenders"]) == ["Lamina", "plain SDPA"], "one that was not measured again is kept"


@pytest.mark.usefixtures("in_threads")
def test_no_further_round_begins_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = run(monkeypatch, tmp_path / "result.json", "--rows", "narrow", "--peers", "", "--seconds", "0")
    assert len(found["narrow"]["contenders"]["Lamina"]["seconds"]) == 1


@pytest.mark.usefixtures("in_threads")
def test_a_contender_that_fails_in_a_step_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import contenders
    from training import measure
    from training_rows import all_rows

    build = contenders.build_contender

    def failing(name: str, options: Any) -> Any:
        contender = build("Lamina", options)
        calls = iter(range(4))
        if name != "Lamina":
            whole = contender.loss
            contender.loss = lambda batch: whole(batch) if next(calls) < 3 else torch.ones(2).backward()
        return contender

    monkeypatch.setattr(contenders, "build_contender", failing)
    sizes = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 1, "vocab_size": 50}
    row = next(row for row in all_rows(4, sizes) if row.name == "narrow")
    found = measure(row, ["fairseq"], rounds=3, threads=1, allocator="default")
    assert len(found["contenders"]["Lamina"]["seconds"]) == 3
    assert "RuntimeError" in found["contenders"]["fairseq"]["failure"]


@pytest.mark.peers
@pytest.mark.parametrize("name", [*PEERS, "Hugging Face GPT-2", "plain SDPA"])
def test_peers_have_the_size_and_the_loss_of_the_model(name: str) -> None:
    from training_peers import LANGUAGE_MODELS, Batch, build_contender
    from training_rows import all_rows

    sizes = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 2, "vocab_size": 50}
    rows = {row.name: row.options for row in all_rows(4, sizes)}
    options = rows["lm" if name in LANGUAGE_MODELS and name != "x-transformers" else "bucketed"]
    short, longer = [[11, 12], [13]], [[14, 15, 16], [17]]
    batch = Batch(short if options.kind != "decoder" else [], longer)
    for each in (build_contender("Lamina", options), build_contender(name, options)):
        loss = each.loss(each.prepare(batch))
        assert 0.3 * np.log(50) < loss.item() < 20 * np.log(50)
        loss.backward()
    own, peer = (build_contender(each, options).model for each in ("Lamina", name))
    layers = [
        sum(weight.numel() for key, weight in model.named_parameters() if weight.ndim > 1 and weight.requires_grad)
        for model in (own, peer)
    ]
    positions = 512 * 16 * 2  # learned in some
    assert abs(layers[0] - layers[1]) in (0, positions)


def test_operations_are_those_of_the_matrix_products() -> None:
    from lamina.model.options import ModelOptions
    from training_peers import Batch
    from training_rows import step_flops

    options = ModelOptions(kind="decoder", num_layers=1, model_dim=2, num_heads=1, feed_forward_dim=3, vocab_size=5)
    own = 2 * 4 * (4 * 4 + 2 * 2 * 3) + 4 * 2 * 16 / 2 + 2 * 4 * 2 * 5
    assert step_flops(options, Batch([], [[1, 2, 3, 4]])) == 3 * own
    crossed = ModelOptions(num_layers=1, model_dim=2, num_heads=1, feed_forward_dim=3, vocab_size=5)
    encoder = 2 * 3 * (4 * 4 + 2 * 2 * 3) + 4 * 2 * 9
    between = 2 * 4 * (2 * 4 + 2 * 3) + 4 * 2 * 12
    assert step_flops(crossed, Batch([[1, 2, 3]], [[1, 2, 3, 4]])) == 3 * (own + encoder + between)


def test_batches_have_the_tokens_of_the_row() -> None:
    from training_rows import all_rows

    rows = {row.name: row for row in all_rows()}
    assert rows["bucketed"].tokens == 2048
    assert rows["shuffled"].tokens == 8 * 256
    assert rows["lm"].tokens == 8 * 512
    assert rows["narrow"].tokens == 16 * 24
    for batch in rows["shuffled"].batches:
        assert len(batch.sources) == len(batch.targets)
        assert batch.source_lengths.sum() == batch.target_lengths.sum() == 256


def test_the_share_of_the_peak_and_the_fastest_peer() -> None:
    from training_table import headline, share_of_peak

    own = {"seconds": [2.0] * 5, "beside": [2.0] * 5, "gemm": [0.5] * 5}
    row = {"contenders": {"Lamina": own, "slow": own | {"seconds": [6.0] * 5}, "fast": own | {"seconds": [3.0] * 5}}}
    assert share_of_peak(own, flops=2e12) == pytest.approx(0.5)
    found = headline(row)
    assert found is not None
    assert (found[0], found[1].value) == ("fast", 1.5)
    assert headline({"contenders": {"Lamina": own, "gone": {"failure": "not installed"}}}) is None
    two = headline({"processes": {"1": [3.0, 3.0], "2": [2.0, 2.0]}})
    assert two is not None
    assert two[1].value == 1.5


@pytest.mark.slow
def test_two_processes_are_compared_with_one() -> None:
    from lamina.model.options import ModelOptions
    from processes import measure_processes

    options = ModelOptions(num_layers=1, model_dim=16, num_heads=2, feed_forward_dim=32, vocab_size=50)
    found = measure_processes(options, 200, rounds=2)
    assert {size: len(seconds) for size, seconds in found["processes"].items()} == {"1": 2, "2": 2}
