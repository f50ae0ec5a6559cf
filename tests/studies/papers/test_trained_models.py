"""The papers' settings at small sizes."""

from __future__ import annotations

from lamina.studies.papers.trained_models import model_run, translation_grid


def test_settings_of_the_papers_are_mapped() -> None:
    values = model_run("tiny", "wmt", scheme="b2t", depth="60-12", rate=1e-3, warmup=1).values
    assert values["model"]["num_layers"] == [30, 6]
    assert values["schedule"] == {
        "name": "inverse-root", "learning_rate": 3e-3, "warmup_steps": 1, "decay_steps": 100
    }  # fmt: skip
    assert model_run("tiny", "text", scheme="b2t", depth="16").values["model"]["num_layers"] == 16


def test_micro_runs_are_small_and_have_one_seed() -> None:
    run = model_run("micro", "wmt", scheme=("post-ln", "pre-ln"), depth="18-18", decay="linear", warmup=100)
    assert run.values["train"]["steps"] == 2
    assert run.seeds == (1,)
    assert run.labels == {"scheme": "post-ln/pre-ln", "depth": "18-18"}
    assert run.config(1).model.num_layers == (1, 1)


def test_deep_post_ln_has_five_seeds() -> None:
    runs = translation_grid("tiny", "wmt", ("post-ln", "pre-ln"), ("6-6", "18-18"))
    assert [len(run.seeds) for run in runs] == [3, 3, 5, 3]
