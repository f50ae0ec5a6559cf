"""Starting from trained weights: what is loaded, what is refused, and that resuming does not load them again."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina import UserError
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.starting_point import StartingPoint
from lamina.runs.run import Run
from lamina.studies.reuse import changes_between, fingerprint
from lamina.training.config import RunConfig
from support.small_runs import assert_same, building, config_for, interrupted, lines, state_of, weights
from support.small_tasks import small_sets

SEGMENTS = {"num_segments": 2, "positions": "learned", "max_length": 256}


@cache
def pretrained(stores: Path, residual: str = "post-ln") -> Path:
    """A run of masked language modelling of a few steps."""
    folder = stores / f"pretrained-{residual}"
    changes = {"model": SEGMENTS | {"residual": residual}, "train": {"steps": 4}}
    Run(config_for("masked-language-modelling", stores, **changes), folder).train(quiet=True)
    return folder


@cache
def pairs_for(run: Path, stores: Path) -> Store:
    """Paraphrases, encoded with the tokenizer of a run."""
    sets = {"test": (), **small_sets("classification", train=80, valid=8)}
    changes: dict[str, Any] = {**sets, "tokenizer": {"file": str(run / "tokenizer.json")}}
    return prepare(source_options("embedded-paraphrases", ".", str(stores / f"pairs-{run.name}"), **changes))


def tuning(stores: Path, run: Path | None = None, **changes: Any) -> RunConfig:
    """The config of a classifier that starts from the pre-trained run."""
    run = run or pretrained(stores)
    changes["model"] = SEGMENTS | changes.get("model", {})
    data = {"store": str(pairs_for(run, stores).folder)}
    return config_for("classification", stores, **{"start_from": str(run), "data": data, **changes})


def started(config: RunConfig, folder: Path) -> dict[str, torch.Tensor]:
    """The weights before the first update."""
    with RunFolder(folder).claim() as claimed:
        return state_of(building(config, claimed))


def test_everything_but_the_output_layer_is_loaded(stores: Path, tmp_path: Path) -> None:
    there, here = weights(pretrained(stores), "best"), started(tuning(stores), tmp_path / "run")
    fresh = started(tuning(stores, start_from=None), tmp_path / "fresh")
    body = {name for name in here if not name.startswith("head.")}
    assert body == {name for name in there if not name.startswith("head.")}
    for name in here:
        assert torch.equal(here[name], (there if name in body else fresh)[name]), name


def test_an_output_layer_of_the_same_kind_and_size_is_loaded_too(stores: Path, tmp_path: Path) -> None:
    first = tuning(stores)
    Run(first, tmp_path / "first").train(quiet=True)
    again = tuning(stores, start_from=str(tmp_path / "first"), start_from_checkpoint="latest")
    assert_same(started(again, tmp_path / "second"), weights(tmp_path / "first"))


def test_the_omegas_of_admin_are_those_of_the_trained_model(stores: Path, tmp_path: Path) -> None:
    run = pretrained(stores, "admin")
    here = started(tuning(stores, run, model={"residual": "admin"}), tmp_path / "run")
    there = weights(run, "best")
    names = [name for name in here if "omega" in name]
    assert names
    assert all(torch.equal(here[name], there[name]) for name in names)


def test_each_difference_of_options_names_and_shapes_is_listed(stores: Path, tmp_path: Path) -> None:
    changed = {"feed_forward_dim": 48, "num_layers": 1, "num_heads": 4, "embedding_norm": True}
    with pytest.raises(UserError) as refused:
        started(tuning(stores, model=changed), tmp_path / "run")
    message = str(refused.value)
    for line in (
        "model.num_heads: here 4, there 2",
        "model.embedding_norm: here True, there False",
        "embedding.norm.weight: here (16,) of float32, there none",
        "stack.layers.0.sublayers.1.inner.weight: here (48, 16) of float32, there (32, 16) of float32",
        "stack.layers.1.sites.1.norm.bias: here none, there (16,) of float32",
        'start_from_differences = "accept"',
    ):
        assert line in message
    assert "head." not in message


def test_a_scheme_with_the_same_shapes_is_a_difference(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="model.residual: here 'deep-norm', there 'post-ln'"):
        started(tuning(stores, model={"residual": "deep-norm"}), tmp_path / "run")


def test_accepted_differences_are_initialised_and_counted(stores: Path, tmp_path: Path) -> None:
    changed = {"model": {"num_layers": 3, "feed_forward_dim": 48}, "start_from_differences": "accept"}
    config = tuning(stores, train={"steps": 1}, **changed)
    here, there = started(config, tmp_path / "run"), weights(pretrained(stores), "best")
    fresh = started(tuning(stores, start_from=None, **changed), tmp_path / "fresh")
    name = "stack.layers.0.sublayers.0.query.weight"
    assert torch.equal(here[name], there[name])
    for name in ("stack.layers.2.sublayers.0.query.weight", "stack.layers.0.sublayers.1.inner.weight"):
        assert torch.equal(here[name], fresh[name])
    Run(config, tmp_path / "trained").train(quiet=True)
    record = StartingPoint.load(RunFolder(tmp_path / "trained").started_from)
    assert record is not None
    assert record.loaded + len(record.initialised) == len(here)
    assert "stack.layers.2.sublayers.0.query.weight" in record.initialised
    assert "head.norm.weight" in record.not_used
    assert f"{record.loaded} weights loaded, {len(record.initialised)} initialised" in record.describe()


def test_another_tokenizer_is_refused_with_the_command_that_prepares_the_data(stores: Path, tmp_path: Path) -> None:
    run = pretrained(stores)
    other = config_for("classification", stores, model=SEGMENTS, start_from=str(run))  # with its own tokenizer
    with pytest.raises(UserError, match="is not that of") as refused:
        started(other, tmp_path / "run")
    assert f"tokenizer.file={run / 'tokenizer.json'}" in str(refused.value)


def test_what_is_no_run_and_what_has_no_such_checkpoint_is_refused(stores: Path, tmp_path: Path) -> None:
    tokenizers = pairs_for(pretrained(stores), stores)
    for changes, words in (
        ({"start_from": str(tokenizers.folder)}, "is not a run folder"),
        ({"start_from": str(tmp_path / "nothing")}, "is not a run folder"),
        ({"start_from_checkpoint": "step-00000099"}, "no checkpoint 'step-00000099'"),
    ):
        with pytest.raises(UserError, match=words):
            started(tuning(stores, **changes), tmp_path / "run")


def test_a_damaged_checkpoint_is_refused(stores: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(pretrained(stores), copied, symlinks=True)
    file = (copied / "checkpoints" / "best" / "model.safetensors").resolve()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match="its content has changed"):
        started(tuning(stores, start_from=str(copied)), tmp_path / "run")


def test_resuming_is_exact_and_does_not_read_the_start_again(stores: Path, tmp_path: Path) -> None:
    start = tmp_path / "start"
    shutil.copytree(pretrained(stores), start, symlinks=True)
    config = tuning(stores, start_from=str(start))
    Run(config, tmp_path / "whole").train(quiet=True)
    interrupted(config, tmp_path / "parts", after=3)
    shutil.rmtree(start)
    Run(config, tmp_path / "parts").train(quiet=True)
    assert_same(weights(tmp_path / "parts"), weights(tmp_path / "whole"))
    assert lines(tmp_path / "parts", "loss") == lines(tmp_path / "whole", "loss")


def test_the_origin_and_the_fingerprint_have_the_hash_of_the_weights(stores: Path, tmp_path: Path) -> None:
    config = tuning(stores, train={"steps": 2})
    Run(config, tmp_path / "run").train(quiet=True)
    folder = RunFolder(tmp_path / "run")
    record = StartingPoint.load(folder.started_from)
    assert record is not None
    origin = json.loads((folder.find_checkpoint("latest") / "counters.json").read_bytes())["origin"]
    store = Store.open(config.data.store or "")
    assert origin["started_from"] == record.sha256 == fingerprint(config, store).started_from
    other = fingerprint(tuning(stores, start_from_checkpoint="step-00000002"), store)
    assert any("start_from: other weights" in each for each in changes_between(fingerprint(config, store), other))


def test_a_resumed_run_cannot_be_started_from_elsewhere(stores: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(pretrained(stores), moved, symlinks=True)
    config = tuning(stores, train={"steps": 4})
    Run(config, tmp_path / "run").train(quiet=True)
    Run(tuning(stores, train={"steps": 6}, start_from=str(moved)), tmp_path / "run").train(quiet=True)  # same weights
    for change in ({"start_from": None}, {"start_from_checkpoint": "step-00000002"}):
        with pytest.raises(UserError, match="started from other weights"):
            Run(tuning(stores, train={"steps": 8}, **change), tmp_path / "run").train(quiet=True)


def test_the_start_of_such_a_run_is_diagnosed_with_its_weights(stores: Path, tmp_path: Path) -> None:
    from lamina.runs.diagnose import Extent, subjects_of

    config = tuning(stores, train={"steps": 2})
    run = Run(config, tmp_path / "run")
    run.train(quiet=True)
    subject = next(subjects_of(run, Extent()))
    assert subject.factory is not None
    model = subject.factory(5, None)
    name = "stack.layers.0.sublayers.0.query.weight"
    assert torch.equal(model.state_dict()[name], weights(pretrained(stores), "best")[name])
    assert any(str(pretrained(stores)) in note for note in subject.notes)
