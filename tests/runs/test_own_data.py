"""A run uses its own tokenizer and manifest, and its store only for examples, if it is the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lamina
from lamina import UserError
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.store import Store
from lamina.files.progress import Progress
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run
from lamina.tasks import TASKS
from lamina.training.config import RunConfig
from support.small_tasks import small_sets
from support.trained_runs import trained_run

TEXTS = ["ma to", "tu"]


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    return trained_run("translation", tmp_path)


def rebuild(store: Path) -> None:
    """Another store at the same place, with a vocabulary of the same size."""
    size = len(Store.open(store).tokenizer())
    sets = {**small_sets("translation", train=90, valid=8), "test": ()}
    chosen = source_options(
        "embedded-translation", ".", str(store), **sets, tokenizer={"size": size, "lower_case": True}, replace=True
    )
    assert len(prepare(chosen).tokenizer()) == size


def test_a_store_rebuilt_in_the_same_place_changes_no_output_and_is_not_evaluated_on(
    trained: Path, tmp_path: Path
) -> None:
    store = tmp_path / "stores" / "translation"
    before = lamina.load(trained).generate(TEXTS)
    own = lamina.load(trained).task.store.tokenizer().sha256
    rebuild(store)
    run = lamina.load(trained)
    assert run.generate(TEXTS) == before
    assert run.task.store.tokenizer().sha256 == own != Store.open(store).tokenizer().sha256
    for use in (run.evaluate, lambda: list(run.diagnose(Extent(1, 1)))):
        with pytest.raises(
            UserError, match=r"(?s)not what this run was started with: .*lower_case: was False, is True"
        ):
            use()
    with pytest.raises(UserError, match="not what this run was started with"):
        lamina.train(trained)


def test_the_same_data_prepared_elsewhere_is_the_same(trained: Path, tmp_path: Path) -> None:
    expected = lamina.load(trained).evaluate().scores
    store = tmp_path / "stores" / "translation"
    moved = tmp_path / "moved"
    shutil.move(store, moved)
    with pytest.raises(UserError, match=rf"no such store.*set data.store in {trained / 'config.toml'}") as caught:
        lamina.load(trained).evaluate()
    assert "damaged" not in str(caught.value)
    config = trained / "config.toml"
    config.write_text(config.read_text().replace(str(store), str(moved)))
    assert lamina.load(trained).evaluate().scores == expected


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.json"])
def test_a_damaged_copy_is_refused_with_the_way_out(name: str, trained: Path) -> None:
    path = trained / name
    original = path.read_bytes()
    for damaged in (b"", original[: len(original) // 2], original.replace(b'"', b"'", 1)):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=rf"{path}: .*damaged.*copy .* again from"):
            lamina.load(trained).generate(TEXTS)
    path.unlink()
    with pytest.raises(UserError, match=f"{path}: cannot be read"):
        lamina.load(trained).generate(TEXTS)
    path.write_bytes(original)
    lamina.load(trained).generate(TEXTS)


def test_preparing_embedded_data_shows_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"valid": (), "test": (), **small_sets("translation", train=40, valid=4)}
    chosen = source_options("embedded-translation", ".", str(tmp_path / "store"), **sets, tokenizer={"size": 400})
    monkeypatch.setattr(TASKS["translation"], "embedded_options", lambda folder: chosen)
    stages: dict[str, list[str]] = {"plan": [], "train": []}

    @contextmanager
    def recorded(after: float, quiet: bool = False) -> Iterator[Progress]:
        assert after == 2.0
        yield lambda stage, done, total: stages["train" if quiet else "plan"].append(stage)

    monkeypatch.setattr("lamina.runs.run.progress_bar", recorded)
    model = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "num_layers": 1}
    config = RunConfig.read({"data": {"max_tokens": 200}, "model": model, "train": {"steps": 1}}, where="test")
    run = Run(config, tmp_path / "run")
    run.plan()
    assert "encoding train" in stages["plan"]
    run.train(quiet=True)
    assert stages["train"] == [], "prepared already"
    shutil.rmtree(tmp_path / "store")
    Run(config, tmp_path / "other").train(quiet=True)
    assert "encoding train" in stages["train"]
