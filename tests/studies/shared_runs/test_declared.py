"""Declared runs: their configs and the keys of what they depend on."""

from __future__ import annotations

from pathlib import Path

from lamina.studies.papers.trained_models import model_run
from lamina.studies.shared_runs.data_sets import open_data
from lamina.studies.shared_runs.declared import key_of


def test_the_key_depends_on_config_seed_and_data_but_not_on_labels(tmp_path: Path) -> None:
    iwslt, wmt = (open_data(name, "micro", tmp_path) for name in ("iwslt", "wmt"))
    run = model_run("micro", "iwslt", scheme="b2t", depth="6-6")
    named = model_run("micro", "iwslt", scheme="b2t", depth="6-6", labels={"data": "iwslt"}, curves=True)
    other = model_run("micro", "iwslt", scheme="b2t", depth="6-6", rate=5e-4)
    key = key_of(run.fingerprint(1, iwslt))
    assert key == key_of(named.fingerprint(1, iwslt))
    assert key not in {
        key_of(run.fingerprint(2, iwslt)), key_of(run.fingerprint(1, wmt)), key_of(other.fingerprint(1, iwslt))
    }  # fmt: skip


def test_a_config_has_the_seed_and_saves_only_at_the_end() -> None:
    config = model_run("micro", "iwslt", scheme="b2t", depth="6-6").config(3)
    assert config.seed == 3
    assert config.train.save_every == 0
    assert config.train.threads == 1
