"""The training loop: the same update however it is cut, exact resume, divergence as a result."""

from __future__ import annotations

import json
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import UserError, residual
from lamina.diagnosis.results import Diagnosis
from lamina.report.terminal.runs import show_run
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run, read_config
from lamina.tasks import TASKS
from lamina.tasks.base import Losses
from lamina.training.config import RunConfig
from support.small_runs import assert_same, before_update, building, config_for, interrupted, weights


@pytest.mark.parametrize("task", TASKS)
def test_an_interrupted_run_ends_with_the_same_weights_in_every_task(task: str, stores: Path, tmp_path: Path) -> None:
    config = config_for(task, stores, model={"dropout": 0.2})
    Run(config, tmp_path / "whole").train(quiet=True)
    for after in (1, 4):
        interrupted(config, tmp_path / "parts", after)
    assert Run(config, tmp_path / "parts").train(quiet=True).state in ("finished", "failed")
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    whole, parts = (
        [line for line in RunFolder(tmp_path / name).metrics.read() if "loss" in line] for name in ("whole", "parts")
    )
    assert [line["loss"] for line in whole] == [line["loss"] for line in parts]


@pytest.mark.parametrize("name", residual.names())
def test_an_interrupted_run_ends_with_the_same_weights_under_every_scheme(
    name: str, stores: Path, tmp_path: Path
) -> None:
    config = config_for("translation", stores, model={"residual": name, "dropout": 0.2}, train={"steps": 4})
    Run(config, tmp_path / "whole").train(quiet=True)
    interrupted(config, tmp_path / "parts", 3)
    Run(config, tmp_path / "parts").train(quiet=True)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.usefixtures("float64")
def test_accumulation_and_processes_leave_the_gradient_as_it_is(task: str, stores: Path, tmp_path: Path) -> None:
    """One micro-batch, many, or those of several processes added up: the same gradient, label smoothing on."""

    def gradient(accumulate: int, rank: int = 0, size: int = 1) -> list[torch.Tensor]:
        config = config_for(
            task, stores, model={"dropout": 0.0}, data={"max_tokens": 600}, train={"accumulate": accumulate}
        )
        folder = RunFolder(tmp_path / "unused")
        training = building(config, folder)
        batches = [
            training.task.batches("train", config.data, seed=1, rank=each, processes=size * accumulate)
            for each in range(rank * accumulate, (rank + 1) * accumulate)
        ]
        shares = [each.batch(0, 0) for each in batches]
        micro_batches = [training.task.inputs(share, seed=1) for share in shares if len(share)]
        whole = training.task.inputs(training.task.batches("train", config.data, seed=1).batch(0, 0), seed=1)
        training.backward(micro_batches, whole.count)
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in training.model.parameters()]

    expected = gradient(1)
    for accumulate in (3, 32):
        for one, other in zip(gradient(accumulate), expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    shared = [sum(parts) for parts in zip(gradient(2, 0, 2), gradient(2, 1, 2), strict=True)]
    for one, other in zip(shared, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", residual.names())
def test_a_bad_number_stops_before_the_update_and_is_named(name: str, stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, model={"residual": name})
    with RunFolder(tmp_path / "run").claim() as folder:
        training = building(config, folder)
        before = {}

        def poison(step: int) -> None:
            if step == 3:
                training.model.decoder.layers[1].sublayers[2].inner.weight.data[0, 0] = torch.nan
                before.update({key: value.clone() for key, value in training.model.state_dict().items()})

        before_update(training, poison)
        state, reason = training.run()
        assert state == "failed"
        assert "step 3" in reason
        assert "decoder.layers.1.sublayers.2.inner" in reason
        for key, value in before.items():
            assert torch.equal(training.model.state_dict()[key].nan_to_num(7.0), value.nan_to_num(7.0)), key
        report = json.loads((folder.diagnosis / "failure.json").read_text())
        assert report["step"] == 3
        batch = training.task.batches("train", config.data, seed=config.seed).batch(0, 2)
        assert sorted(report["examples"]) == sorted(batch.examples)


def test_a_loss_that_stays_above_its_start_is_a_failure(stores: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"schedule": {"name": "constant", "learning_rate": 3.0}, "train": {"steps": 120}}
    status = Run(config_for("translation", stores, **changes), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "above its start" in status.reason
    assert status.step < 120


def test_a_model_that_only_counts_words_has_failed(stores: Path, tmp_path: Path) -> None:
    status = Run(config_for("translation", stores, train={"steps": 1}), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "not below a unigram model's" in status.reason


def test_evaluate_average_and_summary_of_a_run(stores: Path, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"schedule": {"name": "constant", "learning_rate": 1e-2}}
    changes["train"] = {"steps": 60, "save_every": 20, "validate_every": 30}
    changes |= {"model": {"residual": "pre-ln", "model_dim": 32}, "data": {"max_tokens": 600}}
    config = config_for("language-modelling", stores, **changes)
    status = Run(config, tmp_path / "run").train(quiet=True)
    assert status.state == "finished", status.reason
    summary = Run(tmp_path / "run").summary()
    scores = Run(tmp_path / "run").evaluate()
    assert scores.scores["valid"]["nll"] == pytest.approx(summary.best_nll, rel=1e-5)
    assert summary.final["perplexity"] > 1
    assert [each.name for each in Run(tmp_path / "run").average(2)] == ["step-00000040", "step-00000060"]
    assert Run(tmp_path / "run").load("average").evaluate().scores["valid"]["nll"] > 0
    assert read_config(tmp_path / "run", []) == config
    with pytest.raises(UserError, match="9 checkpoints asked for, but 3 kept"):
        Run(tmp_path / "run").average(9)
    with pytest.raises(UserError, match="no checkpoint 'step-9'; there are: step-00000030"):
        Run(tmp_path / "run").load("step-9").evaluate()
    with pytest.raises(UserError, match="no split 'tset'"):
        Run(tmp_path / "run").evaluate(split="tset")
    with pytest.raises(UserError, match="not a run folder"):
        Run(tmp_path).evaluate()


def test_patience_stops_early(stores: Path, tmp_path: Path) -> None:
    changes = {"schedule": {"learning_rate": 1e-9}, "train": {"steps": 50, "validate_every": 1, "patience": 3}}
    status = Run(config_for("classification", stores, **changes), tmp_path / "run").train(quiet=True)
    assert status.step < 50
    assert status.reason == "no better validation nll in 3 measurements"


@pytest.mark.parametrize(
    ("changes", "measured", "best"),
    [
        ({"best": "loss"}, [], 6),
        ({"best": "loss", "evaluate_every": 4}, [4], 6),
        ({"best": "metric"}, [2, 4, 6], 4),
        ({"best": "metric", "evaluate_every": 4}, [4, 6], 6),
    ],
)
def test_the_loss_or_the_metric_decides_which_weights_are_best(
    changes: dict[str, Any],
    measured: list[int],
    best: int,
    stores: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loss falls all the time; accuracy, measured three times, is best in between."""
    found = chain([0.5, 0.9, 0.2] if len(measured) == 3 else [0.2, 0.4], repeat(0.0))
    falling = chain([0.3, 0.2, 0.1], repeat(0.1))  # a finished run is measured at its end in any case
    monkeypatch.setattr(
        "lamina.tasks.classification.Classification.evaluate",
        lambda *given, **options: {"loss": 1.0, "nll": next(falling), "accuracy": next(found)},
    )
    monkeypatch.setattr(
        "lamina.tasks.base.Task.total_losses",
        lambda *given, **options: Losses(torch.tensor(1.0), torch.tensor(next(falling)), 1),
    )
    config = config_for("classification", stores, train={"validate_every": 2, **changes})
    Run(config, tmp_path / "run").train(quiet=True)
    lines = list(RunFolder(tmp_path / "run").metrics.read())
    assert [line["step"] for line in lines if "valid_accuracy" in line] == measured
    assert [line["step"] for line in lines if "valid_nll" in line] == [2, 4, 6]
    assert (tmp_path / "run" / "checkpoints" / "best").resolve().name == f"step-{best:08d}"


def test_patience_follows_the_metric_and_the_summary_tells_it(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = iter([0.5, 0.9, 0.8, 0.7, 0.6])
    monkeypatch.setattr(
        "lamina.tasks.classification.Classification.evaluate",
        lambda *given, **options: {"loss": 0.1, "nll": 0.1, "accuracy": next(found)},
    )
    changes = {"steps": 20, "validate_every": 1, "best": "metric", "patience": 2, "keep": 2, "save_every": 0}
    config = config_for("classification", stores, train=changes)
    interrupted(config, tmp_path / "run", after=3)
    status = Run(config, tmp_path / "run").train(quiet=True)
    assert (status.step, status.reason) == (4, "no better validation accuracy in 2 measurements")
    summary = Run(tmp_path / "run").summary()
    assert summary.best_metric == ("accuracy", 0.9, 2)
    show_run(summary)
    assert "best validation accuracy 0.9 at step 2" in capsys.readouterr().out


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_trains_and_resumes(precision: str, stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"precision": precision})
    Run(config, tmp_path / "whole").train(quiet=True)
    interrupted(config, tmp_path / "parts", 3)
    Run(config, tmp_path / "parts").train(quiet=True)
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    first, *_, last = [line["nll"] for line in RunFolder(tmp_path / "whole").metrics.read() if "nll" in line]
    assert last < first


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task": "translatoin"}, "unknown task 'translatoin'; did you mean 'translation'"),
        ({"model": {"residul": "b2t"}}, "unknown option 'residul'; did you mean 'residual'"),
        ({"train": {"stesp": 3}}, "did you mean 'steps'"),
        ({"schedule": {"name": "inverse"}}, "did you mean 'inverse-root'"),
        ({"train": {"keep": 1}}, "keep: .*greater than or equal to 2"),
    ],
)
def test_config_mistakes(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.read(values, where="own.toml")


def test_the_best_weights_are_kept_though_no_save_was_due(stores: Path, tmp_path: Path) -> None:
    changes = {"train": {"steps": 9, "save_every": 0, "validate_every": 1}, "schedule": {"learning_rate": 1e-2}}
    Run(config_for("language-modelling", stores, **changes), tmp_path / "run").train(quiet=True)
    summary = Run(tmp_path / "run").summary()
    best = (tmp_path / "run" / "checkpoints" / "best").resolve()
    assert best.name == f"step-{summary.best_step:08d}"
    assert Run(tmp_path / "run").evaluate().scores["valid"]["nll"] == pytest.approx(summary.best_nll, rel=1e-5)


def test_a_validation_loss_that_is_no_number_is_a_failure(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Losses(torch.tensor(torch.nan), torch.tensor(torch.nan), 5)
    monkeypatch.setattr("lamina.tasks.base.Task.total_losses", lambda *given, **options: nothing)
    status = Run(config_for("translation", stores), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "validation loss after step 6 is not finite" in status.reason


def test_a_run_that_has_ended_is_left_as_it_is(stores: Path, tmp_path: Path) -> None:
    config = config_for("translation", stores, train={"steps": 2})
    first = Run(config, tmp_path / "run").train(quiet=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    assert Run(config, tmp_path / "run").train(quiet=True) == first
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == lines


def test_the_last_validation_decides_not_the_best(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was good for a while and then fell back to counting words has failed."""
    found = iter([1.0, 50.0])
    monkeypatch.setattr(
        "lamina.tasks.base.Task.total_losses",
        lambda *given, **options: Losses(torch.tensor(1.0), torch.tensor(next(found)), 1),
    )
    changes = {"train": {"steps": 2, "validate_every": 1}}
    status = Run(config_for("translation", stores, **changes), tmp_path / "run").train(quiet=True)
    assert status.state == "failed"
    assert "validation loss 50.000 is not below" in status.reason


def test_a_multilingual_run_is_evaluated_over_all_pairs_together(stores: Path, tmp_path: Path) -> None:
    Run(config_for("multilingual-translation", stores, train={"steps": 2}), tmp_path / "run").train(quiet=True)
    found = Run(tmp_path / "run").evaluate()
    assert list(found.scores) == ["valid"]
    assert {"EX", "XE", "bleu", "bleu marn-selu"} <= set(found.scores["valid"])
    assert "tok:13a" in found.signatures["bleu"]


def test_a_watched_run_trains_the_same_and_says_what_it_saw(stores: Path, tmp_path: Path) -> None:
    Run(config_for("translation", stores), tmp_path / "plain").train(quiet=True)
    watched = config_for("translation", stores, diagnose={"every": 2})
    Run(watched, tmp_path / "watched").train(quiet=True)
    plain, other = weights(tmp_path / "plain"), weights(tmp_path / "watched")
    assert all(torch.equal(plain[name], other[name]) for name in plain)
    seen = [line for line in RunFolder(tmp_path / "watched").metrics.read() if "update/decoder.1.query" in line]
    assert [line["step"] for line in seen] == [2, 4, 6]
    assert all(line["update/decoder.1.query"] > 0 and line["gradient/encoder.1.inner"] > 0 for line in seen)
    diagnosis = Diagnosis.read(tmp_path / "watched" / "diagnosis" / "training.json")
    assert diagnosis.name == "watched"
    assert diagnosis.measures
    resumed = config_for("translation", stores, diagnose={"every": 3}, train={"steps": 9})
    assert Run(resumed, tmp_path / "watched").train(quiet=True).step == 9  # watching is no part of what is trained
