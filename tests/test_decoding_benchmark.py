"""The decoding benchmark without other libraries: all do the same steps, and missing libraries are named."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = ["model_dim=16", "feed_forward_dim=32", "num_heads=2", "num_layers=1", "vocab_size=50"]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run(monkeypatch: pytest.MonkeyPatch, output: Path, *words: str) -> dict[str, Any]:
    sizes = ["--threads", "1", "--sentences", "6", "--beam", "2", "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", ["decoding.py", *sizes, "--output", str(output), *words, *TINY])
    runpy.run_path(str(BENCHMARKS / "decoding.py"), run_name="__main__")
    return json.loads(output.read_text())


def test_schemes_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = run(monkeypatch, tmp_path / "result.json", "--peers", "")
    assert list(found["sentences_per_second"]) == ["post-ln", "pre-ln", "b2t", "resi-dual"]
    assert np.shape(list(found["seconds"].values())) == (4, 2)
    assert 0 <= found["spread"]["low"] <= found["spread"]["value"] <= found["spread"]["high"]
    assert "PyTorch" not in found
    assert "native" not in found


def test_missing_peers_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setitem(sys.modules, "fairseq", None)
    found = run(monkeypatch, tmp_path / "result.json", "--peers", "fairseq,CTranslate2")
    assert set(found["missing"]) == {"fairseq", "CTranslate2"}
    assert "without fairseq: " in capsys.readouterr().out


def test_groups_have_all_sentences_and_falling_lengths() -> None:
    from decoding import random_groups

    groups = random_groups(23, 50)
    lengths = [len(source) for group in groups for source in group.sources]
    assert len(lengths) == 23
    assert lengths == sorted(lengths, reverse=True)
    assert [group.steps for group in groups] == sorted((group.steps for group in groups), reverse=True)
    assert {word for group in groups for source in group.sources for word in source} <= set(range(10, 49))


def test_speed_is_relative_to_the_fastest_other() -> None:
    from decoding import compare

    times = np.tile([4.0, 5.0, 4.0, 4.0, 10.0, 8.0, 1.0], (3, 1))
    names = ["post-ln", "pre-ln", "b2t", "resi-dual", "fairseq", "JoeyNMT", "CTranslate2"]
    found = compare(times, names)
    assert found["spread"].value == pytest.approx(0.25)
    assert found["PyTorch"]["post-ln"].value == 2
    assert found["PyTorch"]["fairseq"].value == 0.8
    assert found["native"]["post-ln"].value == 0.25


def test_an_output_of_another_length_is_no_fair_comparison() -> None:
    from decoding import Group, check

    class Hasty:
        decoder_layer = None

        def search(self, group: Group, batch_size: int) -> list[list[int]]:
            return [[1]] * len(group.sources)

    with pytest.raises(AssertionError, match="lengths differ"):
        check({"hasty": Hasty()}, Group([[10], [11]], steps=3))


def test_single_sentences_and_int8_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    alone = ("--peers", "", "--schemes", "b2t")
    single = run(monkeypatch, tmp_path / "single.json", *alone, "--batch-size", "1", "--beam", "1")
    assert single["settings"]["batch_sizes"] == {"b2t": 1}
    small = run(monkeypatch, tmp_path / "small.json", *alone, "--int8")
    assert small["settings"]["int8"]
    assert list(small["sentences_per_second"]) == ["b2t"]
