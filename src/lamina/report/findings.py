"""The sentences that matter in a comparison, computed from its runs: who trains, why, and what to use.

Everything is said of the deepest models, where the schemes differ most. "Lags" means a validation loss nearer to the
worst scheme's than to the best one's, where the two are more than a tenth apart.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.diagnosis.judge import expects_failure
from lamina.report.run_results import LOSS, RunStory

GRADIENT, SHARE = "gradient-by-layer", "outer first/last"


@dataclass(frozen=True)
class Outcome:
    """A scheme at one depth, over its seeds."""

    scheme: str
    runs: Sequence[RunStory]

    @property
    def failed(self) -> int:
        return sum(run.state == "failed" for run in self.runs)

    @property
    def finished(self) -> list[RunStory]:
        return [run for run in self.runs if run.state == "finished"]

    @property
    def loss(self) -> float:
        """The mean that the table of results has; where no run finished, that of all; infinite before a validation."""
        known = [run.metrics[LOSS] for run in self.finished or self.runs if LOSS in run.metrics]
        return statistics.fmean(known) if known else math.inf

    @property
    def seconds(self) -> float | None:
        """Of the runs that finished: one that breaks off early is no quicker for it."""
        known = [run.seconds for run in self.finished if run.seconds is not None]
        return statistics.fmean(known) if known else None

    @property
    def gradient_share(self) -> float | None:
        """First layer over last, in the last stack of the model, before training."""
        shares = []
        for run in self.runs:
            measures = () if run.start is None else run.start.measures
            facts = next((each.facts for each in measures if each.key == GRADIENT), {})
            shares += [value for name, value in facts.items() if name.endswith(SHARE)][-1:]
        return statistics.fmean(shares) if shares else None

    @property
    def was_expected_to_fail(self) -> bool | None:
        """By a verdict before training, at any of its seeds; None if there was no diagnosis."""
        looked_at = [run.start for run in self.runs if run.start is not None]
        return any(expects_failure(each.verdicts) for each in looked_at) if looked_at else None


def findings(runs: Sequence[RunStory]) -> list[str]:
    """At most three sentences; fewer where the runs do not tell."""
    depth = max((run.depth for run in runs), key=_size, default="")
    ranked = _ranked([run for run in runs if run.depth == depth])
    if not ranked:
        return []
    said = [_who_trains(ranked, depth), _why(ranked), _what_to_use(ranked)]
    return [sentence for sentence in said if sentence]


def best_run(runs: Sequence[RunStory]) -> RunStory | None:
    """The run with the lowest validation loss."""
    ended = [run for run in runs if run.state == "finished" and LOSS in run.metrics]
    return min(ended, key=lambda run: run.metrics[LOSS], default=None)


def _ranked(runs: Sequence[RunStory]) -> list[Outcome]:
    """Best scheme first, those that fail last; without those that tell nothing yet."""
    schemes = dict.fromkeys(run.scheme for run in runs)
    outcomes = [Outcome(scheme, [run for run in runs if run.scheme == scheme]) for scheme in schemes]
    telling = [each for each in outcomes if each.failed or each.loss < math.inf]
    return sorted(telling, key=lambda each: (each.failed > 0, each.loss))


def _who_trains(ranked: Sequence[Outcome], depth: str) -> str:
    best, worst = (extreme(each.loss for each in ranked) for extreme in (min, max))
    lagging = (best + worst) / 2 if worst > 1.1 * best else math.inf
    late = [each for each in ranked if each.failed or each.loss > lagging]
    well = [each for each in ranked if each not in late]
    if not late:
        ends = " to ".join(f"{each.loss:.2f} ({each.scheme})" for each in (well[0], well[-1]))
        return f"At depth {depth} all schemes train: validation losses from {ends}."
    told = "; ".join(_state(each) for each in reversed(late))
    if not well:
        return f"At depth {depth} no scheme trains: {told}."
    others = ", ".join(f"{each.scheme} {each.loss:.2f}" for each in well)
    return f"At depth {depth} {told}. The same model, data and rate with another residual connection: {others}."


def _state(outcome: Outcome) -> str:
    what = f"{outcome.scheme} {'fails' if outcome.failed else 'lags'}"
    if 0 < outcome.failed < len(outcome.runs):
        what += f" in {outcome.failed} of {len(outcome.runs)} runs"
    if outcome.loss == math.inf:
        return f"{what} before its first validation"
    whose = " of the others" if outcome.failed and outcome.finished else ""
    return f"{what} (validation loss{whose} {outcome.loss:.2f})"


def _why(ranked: Sequence[Outcome]) -> str:
    """What the gradient looked like before training, worst scheme against best, and what the verdicts said then."""
    kept = [(each.scheme, share) for each in ranked if (share := each.gradient_share) is not None]
    if len(kept) < 2:
        return ""
    (best, high), (worst, low) = kept[0], kept[-1]
    return (
        f"Before the first step, the gradient of the first layer's last matrix is {low:.2g} of the last "
        f"layer's in {worst}, and {high:.2g} in {best}; {_expectation(ranked)}."
    )


def _expectation(ranked: Sequence[Outcome]) -> str:
    expected = {each.scheme: each.was_expected_to_fail for each in ranked}
    doubtful = [scheme for scheme, fails in expected.items() if fails]
    if not doubtful:
        return "no verdict expected a failure"
    others = ", and no other" if False in expected.values() and None not in expected.values() else ""
    return f"the verdicts expected {', '.join(doubtful)} to fail{others}"


def _what_to_use(ranked: Sequence[Outcome]) -> str:
    finished = [each for each in ranked if each.finished]
    if not finished:
        return ""
    best = finished[0]
    fastest = min((each.seconds for each in finished if each.seconds), default=None)
    cost = f", at {best.seconds / fastest:.2f} times the time of the fastest" if best.seconds and fastest else ""
    return f"Best here: {best.scheme}, validation loss {best.loss:.2f}{cost}."


def _size(depth: str) -> int:
    return sum(int(part) for part in depth.split("-"))
