"""The result of a search: the metric of every run, the best setting by its mean, and the best run of each seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import UserError
from lamina.runs.run import Run
from lamina.studies.compare import describe_errors, train_cells
from lamina.studies.engines import Engine
from lamina.studies.samples import Sample
from lamina.studies.search.settings import SearchCell, SearchSetting
from lamina.tasks import TASKS


@dataclass(frozen=True)
class ScoredSetting:
    """A setting with the metric of its runs after their last step, on the validation split."""

    setting: SearchSetting
    scores: Sample
    """By seed; None for a run without a metric, such as one that diverged."""
    states: Mapping[str, int]
    """The number of runs that did not finish, by their state."""

    @property
    def is_scored(self) -> bool:
        return bool(self.scores.values)


@dataclass(frozen=True)
class SearchResult:
    """The settings of a search, best first."""

    metric: str
    higher_is_better: bool
    ranked: Sequence[ScoredSetting]
    """Settings whose runs all have a metric come first, by the mean over seeds; then those without one for some."""
    reasons: Mapping[str, str]
    """Why runs did not finish, by name."""
    errors: Mapping[str, str]
    """The last message of runs that ended with an error, by name. They have no metric until they are trained."""

    @classmethod
    def read(
        cls, settings: Sequence[SearchSetting], cells: Sequence[SearchCell], folder: Path, errors: Mapping[str, str]
    ) -> SearchResult:
        """Read the metrics of all runs from their folders."""
        task = TASKS[cells[0].config.task]
        scores: dict[SearchSetting, dict[int | None, float | None]] = {setting: {} for setting in settings}
        states: dict[SearchSetting, dict[str, int]] = {setting: {} for setting in settings}
        reasons: dict[str, str] = {}
        for cell in cells:
            if cell.name in errors:
                scores[cell.setting][cell.seed] = None
                states[cell.setting]["error"] = states[cell.setting].get("error", 0) + 1
                continue
            summary = Run(folder / cell.name).summary()
            scores[cell.setting][cell.seed] = summary.final.get(task.metric)
            if summary.state != "finished":
                states[cell.setting][summary.state] = states[cell.setting].get(summary.state, 0) + 1
                reasons[cell.name] = summary.reason
        scored = [ScoredSetting(each, Sample(scores[each]), states[each]) for each in settings]
        sign = -1 if task.higher_is_better else 1
        ranked = sorted(scored, key=lambda each: (each.scores.num_failed, sign * _mean(each.scores, sign)))
        return cls(task.metric, task.higher_is_better, ranked, reasons, errors)

    @property
    def unfinished(self) -> dict[str, str]:
        """The reasons and errors of all runs that did not finish, by name."""
        return {**self.reasons, **self.errors}

    @property
    def best(self) -> ScoredSetting | None:
        """The setting with the best mean over seeds; None if no run has a metric."""
        return self.ranked[0] if self.ranked and self.ranked[0].is_scored else None

    @property
    def best_of_each_seed(self) -> Sample:
        """The metric of the best setting of each seed; None for a seed without any metric."""
        return Sample({seed: chosen and chosen[1] for seed, chosen in self.chosen_by_seed.items()})

    @property
    def chosen_by_seed(self) -> dict[int | None, tuple[SearchSetting, float] | None]:
        """The best setting of each seed, and its metric."""
        found: dict[int | None, tuple[SearchSetting, float] | None] = {}
        for each in self.ranked:  # where several are equal, the one with the better mean is chosen
            for seed, value in each.scores.by_seed.items():
                before = found.setdefault(seed, None)
                if value is not None and (before is None or self._is_better(value, before[1])):
                    found[seed] = each.setting, value
        return found

    def _is_better(self, value: float, than: float) -> bool:
        return value > than if self.higher_is_better else value < than


def _mean(scores: Sample, sign: int) -> float:
    """The mean; for a setting without any metric, the worst value there is."""
    return scores.mean if scores.values else sign * math.inf


class IncompleteSearch(UserError):
    """Some runs ended with an error; `result` has the others."""

    def __init__(self, message: str, result: SearchResult) -> None:
        super().__init__(message)
        self.result = result


def run_search(
    settings: Sequence[SearchSetting], cells: Sequence[SearchCell], folder: Path, engine: Engine | None = None
) -> SearchResult:
    """Train every run that has no result yet. If some end with an error, the result of the others is raised with it."""
    errors = train_cells(cells, folder, engine)
    result = SearchResult.read(settings, cells, folder, errors)
    if errors:
        raise IncompleteSearch(describe_errors(errors, folder), result)
    return result
