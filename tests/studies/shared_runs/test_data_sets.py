"""The data sets of studies that train models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lamina.data.synthetic import NEWS_YEARS
from lamina.errors import UserError
from lamina.studies.shared_runs.data_sets import DATA_NAMES, OPUS_PAIRS, open_beside, open_data


@pytest.mark.parametrize("name", DATA_NAMES)
def test_every_data_set_can_be_prepared(name: str, tmp_path: Path) -> None:
    store = open_data(name, "micro", tmp_path)  # type: ignore[arg-type]
    for split in ("train", "valid", "test"):
        assert store.sets(split)
    assert open_data(name, "micro", tmp_path).manifest == store.manifest  # type: ignore[arg-type]


def test_test_sets_have_the_names_of_the_papers(tmp_path: Path) -> None:
    years = open_data("wmt", "micro", tmp_path).sets("test")
    assert years == tuple(f"test/{year}" for year in NEWS_YEARS)
    assert open_data("opus", "micro", tmp_path).sets("test") == tuple(f"test/{pair}" for pair in OPUS_PAIRS)


def test_scales_without_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--scale tiny"):
        open_data("wmt", "paper", tmp_path)


def test_a_data_set_is_prepared_once_by_runs_that_need_it_at_the_same_time(tmp_path: Path) -> None:
    text = open_data("text", "micro", tmp_path)
    with ThreadPoolExecutor(3) as pool:
        stores = list(pool.map(lambda _: open_beside(text, "mrpc"), range(3)))
    made = {store.folder.stat().st_ino for store in stores}
    assert len(made) == 1
    assert open_beside(text, "mrpc").folder.stat().st_ino == stores[0].folder.stat().st_ino  # kept, not made anew
