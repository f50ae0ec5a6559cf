"""A run's config: checked in full when it is read, stored in full, and readable where an earlier version stored it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina import UserError, residual
from lamina.config import read_overrides, read_values, to_toml
from lamina.data.store import Store
from lamina.generate.options import GenerateOptions
from lamina.model.options import ModelChoices, ModelOptions
from lamina.model.presets import PRESETS
from lamina.options import Options
from lamina.tasks import TASKS
from lamina.training.config import RunConfig
from lamina.training.schedule import ScheduleOptions
from support.small_runs import config_for

STORED = Path(__file__).parent / "stored_configs"


pairs_of = {"encoder-decoder": lambda each: each | st.tuples(each, each)}


def read(**values: Any) -> RunConfig:
    return RunConfig.read(values, where="own.toml")


def read_back(config: RunConfig) -> RunConfig:
    return RunConfig.read(tomllib.loads(to_toml(config)), where="stored")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"droput": 0.1}}, "model.droput: unknown option 'droput'; did you mean 'dropout'"),
        ({"model": {"dropout": "much"}}, "model.dropout: must be a number"),
        ({"model": {"dropout": 1.0}}, "model.dropout: .*less than 1"),
        ({"model": {"preset": "iwlst"}}, "model.preset: unknown preset 'iwlst'; did you mean 'iwslt'"),
        ({"model": {"residual": "b2"}}, "model.residual: unknown residual scheme 'b2'; did you mean 'b2t'"),
        (
            {"model": {"residual": "b2t", "residual_options": {"scale": 1}}},
            "model.residual_options.scale: .*'scale_init'",
        ),
        (
            {"model": {"residual": "mix-ln", "residual_options": {"switch_layer": -1}}},
            "model.*switch_layer: must be at least",
        ),
        ({"model": {"residual_options": 3}}, "model.residual_options: a section with keys of its own"),
        ({"model": {"norm": {"kind": "batch"}}}, "model.norm.kind: unknown value 'batch'"),
        ({"model": {"num_heads": 3}}, "model: num_heads 3 does not divide model_dim 512; change one"),
        ({"model": {"num_kv_heads": 3}}, "model: num_kv_heads 3 does not divide num_heads 8; change one"),
        (
            {"model": {"positions": "rotary", "model_dim": 6, "num_heads": 2}},
            "model: rotary positions need heads of even",
        ),
        ({"model": {"adaptive_cutoffs": [9, 3]}}, r"model: adaptive_cutoffs \(9, 3\) must rise"),
        ({"model": {"adaptive_cutoffs": [3, 9]}}, "model: adaptive_cutoffs are for language models"),
        ({"model": {"preset": "lm"}}, "model: adaptive_cutoffs are for language models"),
        ({"task": "classification", "model": {"num_layers": [2, 3]}}, "model: num_layers is a pair, .* has one stack"),
        ({"task": "classification", "model": {"num_segments": 3}}, "model.num_segments: a pair of sentences has 2"),
        ({"model": {"kind": "decoder"}}, "model.kind: the task 'translation' decides it, 'encoder-decoder'; leave it"),
        ({"model": {"head": "none"}}, "model.head: the task 'translation' decides it, 'words'; leave it out"),
        ({"model": {"vocab_size": 10}}, "model.vocab_size: the data decides it; leave it out"),
        ({"model": {"num_classes": 3}}, "model.num_classes: the data decides it; leave it out"),
        ({"task_options": {"label_smoothin": 0.1}}, "task_options.label_smoothin: .*did you mean 'label_smoothing'"),
        ({"task_options": {"label_smoothing": 1.0}}, "task_options.label_smoothing: .*less than 1"),
        ({"task_options": {"generation": {"baem": 4}}}, "task_options.generation.baem: .*did you mean 'beam'"),
        ({"task_options": {"generation": {"beam": 2, "nbest": 3}}}, "task_options.generation: nbest 3 outputs cannot"),
        ({"task_options": {"generation": {"method": "ctc"}}}, "task_options: generation.method = 'ctc' needs the task"),
        (
            {"task": "speech-recognition", "task_options": {"generation": {"method": "ctc"}}},
            "task_options: .* with ctc_weight above 0",
        ),
        ({"output": "data/own", "format": "tsv"}, "describes data, .* data.store=data/own"),
        ({"task": "classification", "task_options": {"bleu": "bleu"}}, "task_options.bleu: unknown option 'bleu'"),
        ({"task": "language-modelling", "task_options": {"context": 600}}, "task_options: context 600 must be shorter"),
        ({"task": "translatoin", "model": {"kind": "encoder"}}, "task: unknown task 'translatoin'"),
        ({"train": {"steps": True}}, "train.steps: steps is a number or a word, not true"),
        (
            {"train": {"track": ["tensorbored"]}},
            "train.track.0: unknown value 'tensorbored'; did you mean 'tensorboard'",
        ),
    ],
)
def test_mistakes_name_file_and_key_before_there_is_data(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^own.toml: {message}"):
        read(**values)


def test_values_are_typed() -> None:
    config = read(
        task="language-modelling",
        task_options={"block_length": 64, "generation": {"temperature": 0.5}},
        model={"residual": "resi-dual", "residual_options": {"dual_scale": 2}, "num_layers": 3},
    )
    assert type(config.task_options) is TASKS["language-modelling"].Options
    assert config.task_options.generation == GenerateOptions(method="sample", max_length=100, temperature=0.5)
    assert type(config.model.residual_options) is residual.find("resi-dual").Options
    assert config.model.residual_options.model_dump() == {"dual_scale": 2.0, "dual_precision": "fp32"}


def test_a_value_that_the_task_decides_may_be_given_as_it_is() -> None:
    assert read(model={"kind": "encoder-decoder", "head": "words"}) == read()


def test_a_preset_holds_where_nothing_else_is_given() -> None:
    model = read(task="classification", model={"preset": "bert-base", "num_layers": 2}).model
    expected = PRESETS["bert-base"] | {"num_layers": 2}
    assert {name: getattr(model, name) for name in expected if name in ModelChoices.model_fields} == {
        name: value for name, value in expected.items() if name in ModelChoices.model_fields
    }
    assert model.preset == "bert-base"


def test_none_takes_back_a_default() -> None:
    given = {"generation": {"max_length": "none"}}
    assert read(task="language-modelling", task_options=given).task_options.generation.max_length is None
    with pytest.raises(UserError, match="model.num_heads: must be a whole number"):
        read(model={"num_heads": "none"})


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    task = draw(st.sampled_from(sorted(TASKS)))
    paired = pairs_of.get(TASKS[task].model_kind, lambda each: each)
    odd = st.text(st.characters(exclude_categories=["Cs"]))
    model = {
        "preset": draw(
            st.none() | st.sampled_from(["iwslt", "base-12-12" if "source" in TASKS[task].fields else "base"])
        ),
        "residual": draw(paired(st.sampled_from(residual.names()))),
        "num_layers": draw(paired(st.integers(1, 99))),
        "embedding_dropout": draw(st.none() | st.floats(0, 0.9)),
        "shared_embeddings": draw(st.sampled_from(["auto", "decoder", "none"])),
        "norm": {"eps": draw(st.floats(1e-300, 1.0))},
    }
    return read(
        seed=draw(st.integers(-(2**60), 2**60)),
        task=task,
        model=model,
        data={"store": draw(st.none() | odd)},
        schedule={"warmup_steps": draw(st.none() | st.integers(1, 4000)), "learning_rate": draw(st.floats(1e-9, 1e9))},
        train={
            "device": draw(st.sampled_from(["auto", "cpu", "cuda:1"])),
            "track": draw(st.sampled_from([(), ("tensorboard",), ("tensorboard", "wandb")])),
        },
    )


@given(configs())
@settings(deadline=None)
def test_a_config_that_is_written_and_read_is_the_same(config: RunConfig) -> None:
    assert read_back(config) == config


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def resolved(config: RunConfig) -> RunConfig:
    return config.resolved(Store.open(config.data.store or ""))


def keys(options: Options, path: str = "") -> Iterator[str]:
    for name in type(options).model_fields:
        value = getattr(options, name)
        yield f"{path}{name}"
        if isinstance(value, Options):
            yield from keys(value, f"{path}{name}.")


@pytest.mark.parametrize("task", sorted(TASKS))
def test_the_stored_config_leaves_nothing_to_a_default(task: str, stores: Path) -> None:
    config = resolved(config_for(task, stores, model={"residual": "admin"}))
    stored = tomllib.loads(to_toml(config))
    for key in keys(config):
        value: Any = stored
        for part in key.split("."):
            value = value[part]
    assert stored["model"]["residual_options"]["omega"] == "profile"
    assert stored["model"]["shared_embeddings"] == ("decoder" if task == "speech-recognition" else "all")
    assert stored["schedule"]["decay_steps"] == 3, "where the warm-up ends"
    assert stored["model"]["preset"] == "none"


def test_a_schedule_is_stored_with_the_numbers_it_uses() -> None:
    def stored(**values: Any) -> tuple[int | None, ...]:
        options = ScheduleOptions(**values).resolved()
        assert ScheduleOptions(**options.model_dump()) == options
        return options.warmup_steps, options.decay_steps, options.constant_epochs

    assert stored() == (4000, 4000, None)
    assert stored(name="linear", warmup_steps=7) == (7, None, None)
    assert stored(name="shifted-root") == (1, 4000, None)
    assert stored(name="step") == (1, None, 7)


@pytest.mark.parametrize(
    ("options", "name", "other"),
    [
        (ModelChoices, "dropout", 0.7),
        (ModelChoices, "num_kv_heads", 1),
        (ModelChoices, "shared_embeddings", "none"),
        (residual.find("admin").Options, "omega", "paper"),
        (GenerateOptions, "beam", 9),
        (ScheduleOptions, "constant_epochs", 3),
    ],
)
def test_a_changed_default_does_not_change_the_meaning_of_a_stored_config(
    options: type[Options], name: str, other: Any, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes hold the schemas of those within: all that hold the changed one are built again, and put back."""
    config = config_for("translation", stores, model={"residual": "admin"})
    text = to_toml(resolved(config))
    task = TASKS["translation"].Options
    affected = [options, task, ModelChoices, ModelOptions, RunConfig]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(options.model_fields[name], "default", other)
            for each in affected:
                each.model_rebuild(force=True)
            assert getattr(options.model_validate({}), name) == other, "the default has changed"
            assert to_toml(RunConfig.read(tomllib.loads(text), where="stored")) == text
    finally:
        for each in affected:
            each.model_rebuild(force=True)
    assert getattr(options.model_validate({}), name) != other


def test_stored_configs_of_the_version_before_are_read() -> None:
    """Only the keys that were given stood in [model] and [task_options], with what a preset says of the vocabulary."""
    config = RunConfig.read_stored(STORED / "translation.toml")
    assert "vocab_size" in (STORED / "translation.toml").read_text()
    assert config.model == ModelChoices(
        model_dim=512,
        feed_forward_dim=1024,
        num_heads=4,
        num_layers=(3, 2),
        residual=("post-ln", "resi-dual"),
        residual_options=({}, {"dual_scale": 0.5}),
    )
    assert config.task_options == TASKS["translation"].Options(label_smoothing=0.2, generation={"beam": 4})
    assert (config.seed, config.train.steps, config.schedule.name) == (3, 5000, "step")
    language = RunConfig.read_stored(STORED / "language-modelling.toml", ["train.steps=7"])
    assert (language.model.num_layers, language.model.adaptive_cutoffs) == (16, (20_000, 60_000))
    assert (language.task_options.block_length, language.train.steps) == (64, 7)  # type: ignore[attr-defined]


def test_a_stored_config_takes_another_scheme(stores: Path, tmp_path: Path) -> None:
    """All options of the scheme are stored; those of another one are then its defaults."""
    config = resolved(config_for("translation", stores, model={"residual": "resi-dual"}))
    (tmp_path / "config.toml").write_text(to_toml(config))
    other = RunConfig.read_stored(tmp_path / "config.toml", ["model.residual=admin"])
    assert type(other.model.residual_options) is residual.find("admin").Options


def test_a_mistake_in_a_stored_config_names_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[train]\nstep = 3\n")
    with pytest.raises(UserError, match=rf"^{re.escape(str(tmp_path))}/config.toml: train.step: .*'steps'"):
        RunConfig.read_stored(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task": "translatoin"}, "unknown task 'translatoin'; did you mean 'translation'"),
        ({"model": {"residul": "b2t"}}, "unknown option 'residul'; did you mean 'residual'"),
        ({"train": {"stesp": 3}}, "did you mean 'steps'"),
        ({"schedule": {"name": "inverse"}}, "did you mean 'inverse-root'"),
        ({"train": {"keep_checkpoints": 1}}, "keep_checkpoints: must be at least 2"),
    ],
)
def test_config_mistakes(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RunConfig.read(values, where="own.toml")


FORMER_KEYS = {
    "data.pool": ("data.sort_pool", 64),
    "train.clip": ("train.clip_norm", 1.5),
    "train.keep": ("train.keep_checkpoints", 7),
    "schedule.factor": ("schedule.decay_factor", 0.5),
    "diagnose.band.least": ("diagnose.band.min_observed", 9),
    "diagnose.band.share": ("diagnose.band.alarm_share", 0.5),
}


@pytest.mark.parametrize(("former", "key", "value"), [(old, *new) for old, new in FORMER_KEYS.items()])
def test_a_former_key_is_accepted_in_a_file_and_as_an_override(
    former: str, key: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, (section, _, name), new = tmp_path / "own.toml", former.rpartition("."), key.rpartition(".")[2]
    file.write_text(f"[{section}]\n{name} = {value}\n")
    expected = RunConfig.read(read_overrides([f"{key}={value}"]), where="test")
    assert RunConfig.read(read_values(file), where="own.toml") == expected != RunConfig()
    assert f"own.toml: {name!r} is now called {new!r}" in capsys.readouterr().err
    file.write_text("")
    assert RunConfig.read(read_values(file, [f"{former}={value}"]), where="other.toml") == expected
    assert f"other.toml: {name!r} is now called {new!r}" in capsys.readouterr().err
    with pytest.raises(UserError, match=f"own.toml: {former}: this is the former name of {new!r}, which is given too"):
        RunConfig.read(read_values(file, [f"{former}={value}", f"{key}={value}"]), where="own.toml")


def test_a_stored_config_has_the_new_names() -> None:
    """Those of the version before have the former ones."""
    stored = STORED / "translation.toml"
    assert {"keep", "clip"} <= tomllib.loads(stored.read_text())["train"].keys()
    again = tomllib.loads(to_toml(RunConfig.read_stored(stored)))
    assert not {"keep", "clip"} & again["train"].keys()
    assert again["train"]["keep_checkpoints"] == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schedule": {"name": "linear", "warmup_steps": 10}, "train": {"steps": 10}}, "warm-up of 10 steps must end"),
        (
            {"model": {"num_layers": 2, "residual": "mix-ln", "residual_options": {"switch_layer": 3}}},
            "model: mix-ln: switch_layer is 3",
        ),
        ({"train": {"device": "meta"}}, "train.device: not a device"),
        ({"train": {"device": "cuda:x"}}, "train.device: not a device"),
        ({"steps": 3}, "steps: unknown option 'steps'; did you mean 'train.steps'"),
        ({"model": {"preset": [1]}}, "model.preset: unknown preset"),
        ({"model": {"residual_options": []}}, "model.residual_options: give one table, or a list of two"),
        ({"seed": 10**30}, "seed"),
        ({"train": {"steps": 10**30}}, "train.steps"),
        ({"a[b]": 1}, r"a\[b\]: unknown option 'a\[b\]'"),
        ({"task_options": {"generation": {"int[x]": 1}}}, r"task_options.generation.int\[x\]: unknown option"),
    ],
)
def test_a_config_is_checked_in_full_when_it_is_read(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(**values)


def test_one_tracker_needs_no_list() -> None:
    assert read(train={"track": "wandb"}) == read(train={"track": ["wandb"]})


def test_the_default_warm_up_fits_the_default_length() -> None:
    config = RunConfig()
    assert config.schedule.warmup * 4 < config.train.steps
    assert list(config.schedule.notes(config.train.steps)) == []
    read(schedule={"name": "linear"})


def test_a_schedule_that_is_rarely_intended_is_noted() -> None:
    (note,) = read(schedule={"warmup_steps": 1}).schedule.notes(400)
    assert "0.05 of its peak at step 400" in note
    assert "schedule.decay_steps" in note
    assert not list(read(schedule={"warmup_steps": 1, "decay_steps": 400}).schedule.notes(400))
    (note,) = read().schedule.notes(1000)
    assert "warm-up of 4,000 steps is longer than the run of 1,000" in note
