"""Multilingual translation: tags, directions, temperature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.small_tasks import ORDER, first_inputs, model_for, rows, task_of


def test_multilingual_goes_both_ways_with_a_tag_for_the_target(folder: Path) -> None:
    task = task_of("multilingual-translation", folder)
    tokenizer = task.store.tokenizer()
    assert task.centre == "marn"
    assert [(each.source, each.target) for each in task.directions("train")] == [
        ("marn", "tuvo"),
        ("tuvo", "marn"),
        ("marn", "selu"),
        ("selu", "marn"),
    ]
    forwards, backwards, *_ = task.directions("train")
    joined = task.examples("train")
    assert np.array_equal(joined.tokens("source", 3), forwards.split.tokens("source", 3))
    assert np.array_equal(joined.tokens("source", 200 + 3), backwards.split.tokens("target", 3))
    inputs = first_inputs(task)
    starts = [row[0] for row in rows(inputs.tensors["source"], inputs.lengths["source_lengths"])]
    assert set(starts) <= {tokenizer.tag(language) for language in ("marn", "tuvo", "selu")}
    found = task.evaluate(model_for(task), "valid")
    names = ["marn-tuvo", "tuvo-marn", "marn-selu", "selu-marn"]
    scores = [found[f"bleu {name}"] for name in names]
    assert found["EX"] == pytest.approx((scores[0] + scores[2]) / 2)
    assert found["XE"] == pytest.approx((scores[1] + scores[3]) / 2)
    assert found["bleu"] == pytest.approx(sum(scores) / 4)
    around, beside = task.metric_tables()
    assert (around.rows_are, around.columns) == ("language", ("EX (from marn)", "XE (into marn)", "ALL"))
    assert {row.name: row.read(found) for row in around.all_rows} == {
        "tuvo": (scores[0], scores[1], None),
        "selu": (scores[2], scores[3], None),
        "mean": (found["EX"], found["XE"], found["bleu"]),
    }
    assert beside.rows == (), "every pair has the centre"


def test_directions_without_the_centre_are_a_table_of_their_own(folder: Path) -> None:
    task = task_of("multilingual-translation", folder, centre="selu")
    around, beside = task.metric_tables()
    assert [row.name for row in around.rows] == ["marn"]
    assert [(row.name, row.metrics) for row in beside.rows] == [
        ("marn to tuvo", ("bleu marn-tuvo",)),
        ("tuvo to marn", ("bleu tuvo-marn",)),
    ]


def test_samples_name_the_target_language(folder: Path) -> None:
    task = task_of("multilingual-translation", folder)
    tags = {sample.source.split()[0] for sample in task.samples(model_for(task), "valid", 5)}
    assert tags <= {"<2marn>", "<2tuvo>", "<2selu>"}


def test_temperature_draws_small_pairs_more_often(folder: Path) -> None:
    shares = {}
    for temperature in (1.0, 100.0):
        task = task_of("multilingual-translation", folder, temperature=temperature)
        drawn = np.concatenate(task.plan("train", ORDER).epoch(0)[:])
        shares[temperature] = float((drawn >= 400).mean())
    assert shares[1.0] == pytest.approx(0.2, abs=0.01)
    assert shares[100.0] == pytest.approx(0.5, abs=0.02)
