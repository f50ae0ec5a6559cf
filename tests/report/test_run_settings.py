"""The settings in which runs differ, read from their folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.report.comparison_report import ComparisonReport
from lamina.report.run_settings import differing_settings
from lamina.run_folder.starting_point import StartingPoint
from lamina.runs.run import Run, read_config
from support.small_tasks import small_store
from support.trained_runs import trained_run


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run("classification", tmp_path_factory.mktemp("settings"))


def again(first: Path, name: str, *words: str) -> Run:
    """Another run on the same data, with these values of its config."""
    path = first.with_name(name)
    Run(read_config(first, words), path).train(quiet=True)
    return Run(path)


def test_seeds_differ_in_no_setting_and_a_search_in_those_that_are_searched(first: Path) -> None:
    runs = [
        Run(first),
        again(first, "seed2", "seed=2"),
        again(first, "fast", "schedule.learning_rate=0.02", "train.steps=2"),
        again(first, "fast2", "schedule.learning_rate=0.02", "train.steps=2", "seed=2"),
    ]
    assert differing_settings(runs[:2]) == [(), ()]
    assert differing_settings(runs[2:]) == [(), ()]
    own, other = (("learning_rate", "0.001"), ("steps", "6")), (("learning_rate", "0.02"), ("steps", "2"))
    assert [tuple(sorted(each)) for each in differing_settings(runs)] == [own, own, other, other]
    report = ComparisonReport.read([run.path for run in runs])
    assert [result.settings for result in report.results] == differing_settings(runs)


def test_schemes_and_depths_are_no_settings_but_the_options_of_a_scheme_are(first: Path) -> None:
    runs = [
        Run(first),
        again(first, "deep", "model.num_layers=2"),
        again(first, "mix", "model.residual=mix-ln", "model.num_layers=2"),
        again(first, "mix2", "model.residual=mix-ln", "model.num_layers=2", "model.residual_options.switch_layer=2"),
    ]
    assert differing_settings(runs[:3]) == [(), (), ()]
    *_, last = differing_settings(runs)
    assert last == (("switch_layer", "2"),)


def test_other_weights_to_start_from_and_other_data(first: Path, tmp_path: Path) -> None:
    started = again(first, "started", f"start_from={first}")
    assert differing_settings([Run(first), started]) == [(("start_from", "none"),), (("start_from", first.name),)]
    known = StartingPoint.load(started.folder.started_from)
    assert known is not None
    later = again(first, "later", f"start_from={first}")
    known.model_copy(update={"sha256": "0" * 64}).save(later.folder.started_from)
    (before,), (after,) = differing_settings([started, later])
    assert before == ("start_from", f"{first.name} ({known.sha256[:8]})")
    assert after == ("start_from", f"{first.name} (00000000)"), "a folder that held other weights then"
    store = small_store("classification", tmp_path, 400, train=60, valid=8)
    shown = differing_settings([Run(first), again(first, "other data", f"data.store={store.folder}")])
    assert shown[0][0][0] == shown[1][0][0] == "store"
    assert shown[0] != shown[1]
    assert shown[1][0][1].startswith(store.folder.name)


def test_encoder_and_decoder_may_have_different_schemes(tmp_path: Path) -> None:
    run = Run(trained_run("translation", tmp_path))
    mixed = again(run.path, "mixed", 'model.residual=["post-ln","pre-ln"]')
    assert differing_settings([run, mixed]) == [(), ()]
