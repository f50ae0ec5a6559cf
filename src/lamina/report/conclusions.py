"""At most three sentences about a comparison, computed from its runs: which schemes train, why, and which is best.

They are about the deepest models, where schemes differ most. A scheme lags if its validation loss is nearer to the
worst scheme's than to the best one's, and these two are more than a tenth apart.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.diagnosis.checks import expects_failure
from lamina.diagnosis.measures.base import FIRST_TO_LAST
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.report.labels import depth_name, variant_name
from lamina.report.run_results import RunResult

SAME_OTHERWISE = "The same model, data and learning rate with another residual connection"


@dataclass(frozen=True)
class SchemeResult:
    """A scheme at one depth, and with one setting where runs differ in more than scheme, depth and seed."""

    scheme: str
    """Its name, with the setting."""
    runs: Sequence[RunResult]

    @property
    def failed(self) -> int:
        return sum(run.state == "failed" for run in self.runs)

    @property
    def is_too_short(self) -> bool:
        """Whether its runs were too short to be judged, and none of them failed or finished."""
        return not self.failed and any(run.state == "too short" for run in self.runs) and not self.finished

    @property
    def finished(self) -> list[RunResult]:
        return [run for run in self.runs if run.state == "finished"]

    @property
    def loss(self) -> float:
        """The mean of the lowest validation losses of the finished runs, as in the table of results; of all runs where
        none finished; infinite where no run has validated."""
        known = [run.best_loss for run in self.finished or self.runs if run.best_loss is not None]
        return statistics.fmean(known) if known else math.inf

    @property
    def seconds(self) -> float | None:
        """The mean time of the finished runs: a run that failed early is not faster."""
        known = [run.seconds for run in self.finished if run.seconds is not None]
        return statistics.fmean(known) if known else None

    @property
    def gradient_ratio(self) -> float | None:
        """The gradient norm of the first layer's last matrix ÷ the last layer's, before training.

        It is that of the stack from which the loss is computed.
        """
        diagnosed = [run.start for run in self.runs if run.start is not None]
        ratios = [
            fact.value
            for start in diagnosed
            for measurement in start.measurements
            if measurement.key == GradientByLayer.key
            for fact in measurement.find_facts(FIRST_TO_LAST, stack=start.output_stack, matrix="outer")
        ]
        return statistics.fmean(ratios) if ratios else None

    @property
    def lacks_output_stack(self) -> bool:
        """Whether a version that did not record the stack of the loss made a diagnosis, so that there is no ratio."""
        diagnosed = [run.start for run in self.runs if run.start is not None]
        return self.gradient_ratio is None and any("output_stack" not in each.model_fields_set for each in diagnosed)

    @property
    def was_expected_to_fail(self) -> bool | None:
        """Whether a finding before training expected a failure at any seed; None if there was no diagnosis."""
        diagnosed = [run.start for run in self.runs if run.start is not None]
        return any(expects_failure(each.findings) for each in diagnosed) if diagnosed else None


def draw_conclusions(runs: Sequence[RunResult]) -> list[str]:
    """At most three sentences; fewer where the runs do not say enough."""
    layers = max((run.layers for run in runs), key=sum, default=())
    ranked = _rank([run for run in runs if run.layers == layers])
    if not ranked:
        return []
    sentences = [_which_train(ranked, depth_name(layers)), _why(ranked), _which_is_best(ranked)]
    return [sentence for sentence in sentences if sentence]


def best_run(runs: Sequence[RunResult]) -> RunResult | None:
    """The finished run with the lowest validation loss."""
    finished = [run for run in runs if run.state == "finished" and run.best_loss is not None]
    return min(finished, key=lambda run: run.best_loss or math.inf, default=None)


def _rank(runs: Sequence[RunResult]) -> list[SchemeResult]:
    """Best scheme first, those that fail last; without those that have no result yet."""
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(variant_name(run.schemes, run.settings), []).append(run)
    results = [SchemeResult(name, those) for name, those in groups.items()]
    known = [each for each in results if each.failed or each.loss < math.inf]
    return sorted(known, key=lambda each: (each.failed > 0, each.loss))


def _which_train(ranked: Sequence[SchemeResult], depth: str) -> str:
    best, worst = (extreme(each.loss for each in ranked) for extreme in (min, max))
    limit = (best + worst) / 2 if worst > 1.1 * best else math.inf
    bad = [each for each in ranked if each.failed or each.is_too_short or each.loss > limit]
    good = [each for each in ranked if each not in bad]
    differ_in_settings = any(run.settings for each in ranked for run in each.runs)
    models = "models" if differ_in_settings else "schemes"
    if len(ranked) == 1:
        return _whether_trains(ranked[0], depth)
    if not bad:
        ends = " to ".join(f"{each.loss:.2f} ({each.scheme})" for each in (good[0], good[-1]))
        return f"At depth {depth} all {models} train: validation losses from {ends}."
    if all(each.is_too_short for each in ranked):
        losses = ", ".join(f"{each.scheme} {each.loss:.2f}" for each in ranked)
        return f"At depth {depth} the runs are too short to tell which {models} train: validation losses {losses}."
    described = "; ".join(_describe_bad(each) for each in reversed(bad))
    if not good:
        return f"At depth {depth} no {models.removesuffix('s')} trains: {described}."
    others = ", ".join(f"{each.scheme} {each.loss:.2f}" for each in good)
    same = "The others" if differ_in_settings else SAME_OTHERWISE
    return f"At depth {depth} {described}. {same}: {others}."


def _whether_trains(only: SchemeResult, depth: str) -> str:
    if only.failed or only.is_too_short:
        return f"At depth {depth} {_describe_bad(only)}."
    state = "trains" if only.finished else "has not ended"
    return f"At depth {depth} {only.scheme} {state}: validation loss {only.loss:.2f}."


def _describe_bad(result: SchemeResult) -> str:
    if result.is_too_short:
        return f"{result.scheme} is too short to be judged (validation loss {result.loss:.2f})"
    what = f"{result.scheme} {'fails' if result.failed else 'lags'}"
    if 0 < result.failed < len(result.runs):
        what += f" in {result.failed} of {len(result.runs)} runs"
    if result.loss == math.inf:
        return f"{what} before its first validation"
    of = " of the others" if result.failed and result.finished else ""
    return f"{what} (validation loss{of} {result.loss:.2f})"


def _why(ranked: Sequence[SchemeResult]) -> str:
    """The gradients before training, of the worst and the best scheme, and what the findings expected."""
    known = [(each.scheme, ratio) for each in ranked if (ratio := each.gradient_ratio) is not None]
    unknown = ", ".join(each.scheme for each in ranked if each.lacks_output_stack)
    missing = unknown and (
        f"The gradients before training of {unknown} are not compared: the stack that the loss is computed from was "
        "not recorded by the version that made the diagnosis; lamina diagnose makes it again."
    )
    if len(known) < 2:
        return missing
    (best, high), (worst, low) = known[0], known[-1]
    return (
        f"Before the first step, the gradient of the first layer's last matrix is {low:.2g} of the last "
        f"layer's in {worst}, and {high:.2g} in {best}; {_expectation(ranked)}. {missing}"
    ).rstrip()


def _expectation(ranked: Sequence[SchemeResult]) -> str:
    expected = {each.scheme: each.was_expected_to_fail for each in ranked}
    failing = [scheme for scheme, fails in expected.items() if fails]
    if not failing:
        return "no finding expected a failure"
    others = ", and no other" if False in expected.values() and None not in expected.values() else ""
    return f"the findings expected {', '.join(failing)} to fail{others}"


def _which_is_best(ranked: Sequence[SchemeResult]) -> str:
    finished = [each for each in ranked if each.finished]
    if not finished or len(ranked) == 1:
        return ""
    best = finished[0]
    fastest = min((each.seconds for each in finished if each.seconds), default=None)
    cost = f", at {best.seconds / fastest:.2f} times the time of the fastest" if best.seconds and fastest else ""
    return f"Best here: {best.scheme}, validation loss {best.loss:.2f}{cost}."
