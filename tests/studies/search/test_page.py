"""The page of a search: every setting, both ways of choosing the best, and the figure."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lamina.studies.samples import Sample
from lamina.studies.search.page import REMARK, save_search, search_page, show_search
from lamina.studies.search.result import ScoredSetting, SearchResult
from lamina.studies.search.settings import SearchSetting


def result_of(*, seeds: int = 2) -> SearchResult:
    """Twelve settings, of which the last has no metric."""
    settings = [
        SearchSetting((("data.batch_examples", batch), ("schedule.learning_rate", rate), ("train.epochs", epochs)))
        for batch, rate, epochs in itertools.product((16, 32), (1e-5, 3e-5, 1e-4), (3, 5))
    ]
    scored = [
        ScoredSetting(setting, Sample({seed: 80.0 - at + seed for seed in range(1, seeds + 1)}), {})
        for at, setting in enumerate(settings[:-1])
    ]
    failed = ScoredSetting(settings[-1], Sample(dict.fromkeys(range(1, seeds + 1))), {"failed": seeds})
    reasons = {"run-<b>": "the loss is not finite"}
    return SearchResult("accuracy", True, [*scored, failed], reasons, {})


@pytest.mark.parametrize("form", ["html", "md"])
def test_every_setting_and_both_choices_are_on_the_page(form: str) -> None:
    page = search_page(result_of(), form, "Settings")
    plain = page.replace("\\", "")
    assert "Best setting by the mean over 2 seeds" in page
    assert "With the best setting of each seed" in page
    assert "81.5 ± 6.4" in page, "t = 12.706 for two seeds: 12.706 · 0.7071 / √2"
    assert REMARK.split("(")[0] in plain or form == "html"
    assert "2 failed" in page
    assert "run-<b>" not in page if form == "html" else "run" in page
    assert "Accuracy against schedule.learning_rate" in plain
    for batch in (16, 32):
        assert f"data.batch_examples = {batch}" in plain, "a panel for each"
    assert "train.epochs = 5" in plain


def test_a_single_seed_has_no_interval() -> None:
    page = search_page(result_of(seeds=1), "md", "Settings")
    assert "±" not in page.replace(REMARK, "").replace("Mean ± half", "")


def test_without_numbers_there_is_no_figure(tmp_path: Path) -> None:
    settings = [SearchSetting((("model.residual", name),)) for name in ("b2t", "pre-ln")]
    scored = [ScoredSetting(setting, Sample({1: 5.0, 2: 6.0}), {}) for setting in settings]
    save_search(SearchResult("accuracy", True, scored, {}, {}), tmp_path / "search.html")
    assert " against " not in (tmp_path / "search.html").read_text()


def test_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_search(result_of())
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split()[:3] == ["batch_examples", "learning_rate", "epochs"]
    assert "Best setting by the mean over 2 seeds: data.batch_examples = 16" in shown
    assert "run-<b>: the loss is not finite" in shown
