"""The benchmark programs of this repository run end to end and print their results; no test asserts a time."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = ["model_dim=16", "feed_forward_dim=32", "num_heads=2", "num_layers=1"]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a program that is started: its folder comes first."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in this process what belongs in a fresh one: faster, and with the same results except for memory."""
    import steps

    monkeypatch.setattr(steps, "in_fresh_process", lambda function, *arguments: function(*arguments))


@pytest.fixture
def result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, here: None) -> Any:
    def run(program: str, *arguments: str) -> dict[str, Any]:
        output = tmp_path / "result.json"
        words = [program, "--threads", "1", "--output", str(output), *arguments]
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(BENCHMARKS / program), run_name="__main__")
        return json.loads(output.read_text())

    return run


def test_every_scheme_is_paired_with_a_post_ln_step_in_every_round(
    result: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ("--rounds", "3", "--tokens", "100", "--memory-steps", "1", *TINY, "vocab_size=50")
    found = result("schemes.py", "--schemes", "b2t,keel,dlcl", *size)
    assert list(found["schemes"]) == ["b2t", "keel", "dlcl"]
    assert {scheme: np.shape(pairs) for scheme, pairs in found["pairs"].items()} == dict.fromkeys(
        ("b2t", "keel", "dlcl"), (3, 2)
    )
    assert found["schemes"]["b2t"]["bounds"] == {"time": 1.03, "memory": 1.10}
    assert found["schemes"]["keel"]["bounds"] == {"time": 1.15}
    assert found["schemes"]["dlcl"]["bounds"] == found["schemes"]["dlcl"]["met"] == {}
    for cost in found["schemes"].values():
        assert 0 < cost["time"]["low"] <= cost["time"]["value"] <= cost["time"]["high"]
        assert 0.5 < cost["memory"] < 2
    assert "Too few to quote" in capsys.readouterr().out


def test_the_parts_of_the_loop_are_all_timed(result: Any, capsys: pytest.CaptureFixture[str]) -> None:
    found = result("loop.py", "--rounds", "2", "--tokens", "200", *TINY)
    parts = found["seconds_per_step"]
    assert {"forward", "backward", "optimiser", "clipping", "making batches (a thread)", "everything else"} <= set(
        parts
    )
    assert all(seconds >= 0 for seconds in parts.values())
    own = 1 - sum(parts[part] for part in ("forward", "backward", "optimiser")) / sum(parts.values())
    assert found["own_share"]["value"] == pytest.approx(own)
    assert found["met"] == (found["own_share"]["low"] <= found["bound"] == 0.02)
    assert found["checkpoint"] > 0
    assert found["validation"] > 0
    assert "The loop's own" in capsys.readouterr().out


def test_depth_is_timed_measured_and_trained(result: Any, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--rounds", "2", "--depths", "1,2,3", "--width", "16", "--tokens", "64")
    found = result("depth.py", *small, "--kinds", "decoder", "--deep", "4", "--deep-steps", "3", "--deep-tokens", "64")
    assert list(found["decoder"]["seconds"]) == ["1", "2", "3"]
    assert {name: len(peaks) for name, peaks in found["decoder"]["memory"].items()} == {"plain": 2, "checkpointed": 2}
    assert found["decoder"]["r_squared"] <= 1
    assert len(found["deep"]["losses"]) == found["deep"]["steps"] == 3
    assert "activation checkpointing" in capsys.readouterr().out


def test_a_line_is_linear_and_a_parabola_is_not() -> None:
    from depth import growth

    depths, noise = np.array([6, 12, 25, 50, 100]), np.random.default_rng(2).normal(1, 0.01, (20, 5))
    straight, bent = growth(depths, (1 + 0.1 * depths) * noise), growth(depths, (1 + 0.01 * depths**2) * noise)
    assert straight["linear"]
    assert straight["per_layer"] == pytest.approx(0.1, rel=0.05)
    assert not bent["linear"]
    assert bent["marginal"]["low"] > 1.1


@pytest.mark.slow
def test_a_fresh_process_does_not_count_what_its_parent_holds() -> None:
    from steps import in_fresh_process, resident_maximum

    held = np.ones(2**27)  # a gigabyte, more than it takes to import torch
    assert resident_maximum() > held.nbytes > in_fresh_process(resident_maximum)


def test_an_interval_holds_the_ratio_and_a_bound_is_reached_from_below() -> None:
    from pairs import ratio_of_medians

    random = np.random.default_rng(1)
    speed = random.uniform(1, 3, 40)  # a machine that is now fast, now slow, for both of a pair
    pairs = [(1.1 * pace * each, pace) for pace, each in zip(speed, random.normal(1, 0.01, 40), strict=True)]
    ratio = ratio_of_medians(pairs)
    assert ratio.low < 1.1 < ratio.high
    assert ratio.high - ratio.low < 0.1
    assert ratio.reaches(1.1)
    assert not ratio.reaches(1.03)
    exact = ratio_of_medians([(2.0, 1.0)] * 5)
    assert (exact.value, exact.low, exact.high) == (2.0, 2.0, 2.0)


def test_a_batch_has_the_tokens_asked_for_and_depends_on_nothing_else() -> None:
    from lamina.model.options import ModelOptions
    from steps import random_batch

    first, second = (random_batch(ModelOptions(preset="iwslt", residual=scheme), 4096) for scheme in ("post-ln", "b2t"))
    assert len(first["source"]) + len(first["target"]) == 4096
    assert sum(first["source_lengths"]) == len(first["source"])
    assert 20 < np.mean(first["source_lengths"]) < 30
    assert not (first["source"] == first["target"]).all()
    for name in first:
        assert (np.asarray(first[name]) == np.asarray(second[name])).all()
    single = random_batch(ModelOptions(preset="lm"), 1000)
    assert len(single["tokens"]) == sum(single["lengths"]) == 1000


def test_advice_is_compared_in_ten_settings_and_a_failed_run_is_not_better(tmp_path: Path) -> None:
    import advise

    assert len(advise.SETTINGS) == len({each.name for each in advise.SETTINGS}) == 10
    row = {
        "setting": "speech", "depth": 6, "scheme": "b2t", "advised_depth": "3", "width": 88, "learning_rate": 5e-3,
        "advised": [1.0, 1.2], "advised_steps": 300, "as_it_is": [1.5, 1.4], "as_it_is_steps": 900,
    }  # fmt: skip
    assert advise.is_better(row)
    assert advise.is_better(row | {"as_it_is": [0.1, None]})
    assert not advise.is_better(row | {"advised": [0.1, None]})
    assert not advise.is_better(row | {"advised": [1.5, 1.4]})
    shown = "| speech | 6 | b2t, 3 × 88, 0.005 | 1.1 (1, 1.2) | 300 | 1.45 (1.5, 1.4) | 900 | yes |"
    assert advise.table([row]).splitlines()[-1] == shown
