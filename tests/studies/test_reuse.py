"""A finished run is reused while nothing that its results depend on has changed; and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina import residual, training
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.diagnosis import measures
from lamina.model.presets import PRESETS
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.records import Fingerprint
from lamina.runs.diagnose import Extent
from lamina.studies.reuse import changes_between, diagnosis_fingerprint, fingerprint, result_versions, scheme_versions
from lamina.tasks import TASKS
from lamina.training.config import RunConfig
from lamina.training.optimisers import OPTIMISERS


def toy(folder: Path, sentences: int) -> Store:
    sets = {"train": [f"translation:{sentences}"], "valid": ["translation:6"], "test": ()}
    return prepare(source_options("embedded-translation", ".", str(folder), tokenizer={"size": 400}, **sets))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return toy(tmp_path_factory.mktemp("reuse") / "toy", 60)


def config(**changes: object) -> RunConfig:
    return RunConfig.read({"model": {"residual": "b2t", "num_layers": 2}} | changes, where="test")


def changes(store: Store, now: RunConfig, before: Fingerprint) -> list[str]:
    return changes_between(before, fingerprint(now, store))


def test_config_and_data_count_and_are_named(store: Store, tmp_path: Path) -> None:
    base = fingerprint(config(), store)
    assert changes(store, config(), base) == []
    assert changes(store, config(seed=2), base) == ["seed: 1 -> 2"]
    faster = config(schedule={"learning_rate": 0.002}, model={"residual": "b2t", "num_layers": 3})
    assert changes(store, faster, base) == ["model.num_layers: 2 -> 3", "schedule.learning_rate: 0.0005 -> 0.002"]
    (message,) = changes(toy(tmp_path / "other", 61), config(), base)
    assert message.startswith("data: ")


def test_what_affects_no_result_does_not_count(store: Store) -> None:
    quieter = config(train={"threads": 2, "log_every": 7, "track": ["tensorboard"]}, data={"store": "elsewhere"})
    assert changes(store, quieter, fingerprint(config(), store)) == []


def test_length_and_precision_count(store: Store) -> None:
    base = fingerprint(config(), store)
    assert changes(store, config(train={"steps": 7}), base) == ["train.steps: 20000 -> 7"]
    assert changes(store, config(train={"precision": "bf16"}), base) == ["train.precision: fp32 -> bf16"]


def test_a_preset_counts_by_its_values(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    named = config(model={"preset": "iwslt", "residual": "b2t"})
    base = fingerprint(named, store)
    spelt = {name: value for name, value in PRESETS["iwslt"].items() if name != "vocab_size"} | {"residual": "b2t"}
    assert changes(store, config(model=spelt), base) == []
    monkeypatch.setitem(PRESETS, "iwslt", PRESETS["iwslt"] | {"num_heads": 8})
    now = config(model={"preset": "iwslt", "residual": "b2t"})
    assert changes(store, now, base) == ["model.num_heads: 4 -> 8"]


def test_it_survives_its_file(store: Store, tmp_path: Path) -> None:
    pair = config(model={"residual": ["post-ln", "b2t"], "num_layers": (2, 3), "adaptive_cutoffs": ()})
    base = fingerprint(pair, store)
    file = RunFolder(tmp_path).fingerprint
    file.write(base)
    assert file.read() == base
    assert changes(store, pair, base) == []


@pytest.mark.parametrize("text", ["", "[]", '{"config": "1f", "data": "2e", "code": "3d"}'])
def test_a_run_without_a_readable_record_is_trained_again(store: Store, tmp_path: Path, text: str) -> None:
    file = RunFolder(tmp_path).fingerprint
    assert file.read() is None
    file.path.write_text(text)
    assert file.read() is None
    assert changes_between(None, fingerprint(config(), store)) == ["the former run has no record of what it depends on"]


def test_versions_are_those_of_what_the_run_uses() -> None:
    assert result_versions(config()) == {
        "shared path": training.RESULT_VERSION,
        "scheme b2t": 1,
        "task translation": 1,
    }
    pair = config(model={"residual": ["post-ln", "siamese"]}, task="summarisation")
    assert result_versions(pair).keys() == {"shared path", "scheme post-ln", "scheme siamese", "task summarisation"}


def test_raised_versions_count_for_the_runs_that_depend_on_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    b2t, other = config(), config(model={"residual": "siamese", "num_layers": 2})
    before = fingerprint(b2t, store), fingerprint(other, store)
    monkeypatch.setattr(residual.find("b2t"), "result_version", 2)
    assert changes(store, b2t, before[0]) == ["result version of scheme b2t: 1 -> 2"]
    assert changes(store, other, before[1]) == []
    monkeypatch.setattr(TASKS["translation"], "result_version", 3)
    now = training.RESULT_VERSION
    monkeypatch.setattr(training, "RESULT_VERSION", now + 1)
    assert changes(store, other, before[1]) == [
        f"result version of shared path: {now} -> {now + 1}",
        "result version of task translation: 1 -> 3",
    ]


def test_runs_of_an_initialisation_that_has_changed_are_trained_again(store: Store) -> None:
    """A run that was trained before initialisations had versions has no version of its own on record."""
    fairseq = config(model={"init": "fairseq"})
    now = fingerprint(fairseq, store)
    assert now.versions["initialisation fairseq"] == 2
    before = now.model_copy(
        update={"versions": {name: version for name, version in now.versions.items() if "initialisation" not in name}}
    )
    assert changes(store, fairseq, before) == ["result version of initialisation fairseq: 1 -> 2"]
    xavier = config(model={"init": "xavier"})
    assert changes(store, xavier, before) == ["model.init: fairseq -> xavier"]


def test_runs_of_an_optimiser_that_has_changed_are_trained_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    adam, sgd = config(), config(optimiser={"name": "sgd"})
    before = fingerprint(adam, store), fingerprint(sgd, store)
    monkeypatch.setattr(OPTIMISERS["adam"], "result_version", 2)
    assert changes(store, adam, before[0]) == ["result version of optimiser adam: 1 -> 2"]
    assert changes(store, sgd, before[1]) == []
    derived = config(optimiser={"name": "adamw"})
    assert result_versions(derived)["optimiser adam"] == 2, "adamw is built by adam's code"


def test_a_scheme_depends_on_the_versions_of_those_it_derives_from(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = config(model={"residual": "b2t-over-all"})
    monkeypatch.setattr(residual.find("b2t"), "result_version", 2)
    assert scheme_versions("b2t-over-all") == {"scheme b2t-over-all": 1, "scheme b2t": 2}
    assert result_versions(derived)["scheme b2t"] == 2


def test_another_scheme_is_named_once(store: Store) -> None:
    other = config(model={"residual": "siamese", "num_layers": 2})
    assert changes(store, other, fingerprint(config(), store)) == ["model.residual: b2t -> siamese"]


def test_what_diagnoses_depend_on_does_not_change_the_training(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    base, diagnosed = fingerprint(config(), store), diagnosis_fingerprint(config(), Extent())
    stricter = config(diagnose={"thresholds": {"vanishing": {"failure": 0.5}}})
    assert changes(store, stricter, base) == []
    assert diagnosis_fingerprint(stricter, Extent()) != diagnosed
    assert diagnosis_fingerprint(config(), Extent(seeds=3)) != diagnosed
    assert diagnosis_fingerprint(config(seed=2), Extent()) == diagnosed
    monkeypatch.setattr(measures, "RESULT_VERSION", measures.RESULT_VERSION + 1)
    assert changes(store, config(), base) == []
    assert diagnosis_fingerprint(config(), Extent()) != diagnosed
