"""The sentences that matter in a comparison, computed from its runs: who trains, why, and what to use.

Everything is said of the deepest models, where the schemes differ most. "Lags" means a validation loss nearer to the
worst scheme's than to the best one's, where the two are more than a tenth apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lamina.report.comparison import RunStory

LOSS = "validation loss"
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
    def loss(self) -> float | None:
        """The mean of the validation losses at the end of its curves."""
        last = [curve[-1][1] for run in self.runs if (curve := run.curves.get(LOSS))]
        return statistics.fmean(last) if last else None

    @property
    def seconds(self) -> float | None:
        known = [run.seconds for run in self.runs if run.seconds is not None]
        return statistics.fmean(known) if known else None


def findings(runs: Sequence[RunStory]) -> list[str]:
    """At most three sentences; fewer where the runs do not tell."""
    depth = max((run.depth for run in runs), key=_size, default="")
    outcomes = _outcomes([run for run in runs if run.depth == depth])
    known = {name: each.loss for name, each in outcomes.items() if each.loss is not None}
    if not known:
        return []
    said = [_who_trains(outcomes, known, depth), _why(outcomes, known), _what_to_use(outcomes, known)]
    return [sentence for sentence in said if sentence]


def best_run(runs: Sequence[RunStory]) -> RunStory | None:
    """The run with the lowest validation loss."""
    ended = [run for run in runs if run.state == "finished" and run.curves.get(LOSS)]
    return min(ended, key=lambda run: min(value for _, value in run.curves[LOSS]), default=None)


def behind(outcomes: Mapping[str, Outcome], losses: Mapping[str, float]) -> list[str]:
    """The schemes that fail or lag, worst first."""
    best, worst = min(losses.values()), max(losses.values())
    lagging = [
        name
        for name, loss in losses.items()
        if outcomes[name].failed or (worst > 1.1 * best and loss > (best + worst) / 2)
    ]
    return sorted(lagging, key=lambda name: -losses[name])


def _who_trains(outcomes: Mapping[str, Outcome], losses: Mapping[str, float], depth: str) -> str:
    late = behind(outcomes, losses)
    well = sorted((name for name in losses if name not in late), key=lambda name: losses[name])
    if not late:
        ends = " to ".join(f"{losses[name]:.2f} ({name})" for name in (well[0], well[-1]))
        return f"At depth {depth} all schemes train: validation losses from {ends}."
    told = "; ".join(_state(outcomes[name], losses[name]) for name in late)
    if not well:
        return f"At depth {depth} no scheme trains: {told}."
    others = ", ".join(f"{name} {losses[name]:.2f}" for name in well)
    return f"At depth {depth} {told}. The same model, data and rate with another residual connection: {others}."


def _state(outcome: Outcome, loss: float) -> str:
    count = f" in {outcome.failed} of {len(outcome.runs)} runs" if outcome.failed < len(outcome.runs) else ""
    what = f"fails{count}" if outcome.failed else "lags"
    return f"{outcome.scheme} {what} (validation loss {loss:.2f})"


def _why(outcomes: Mapping[str, Outcome], losses: Mapping[str, float]) -> str:
    """What the gradient looked like before training, worst scheme against best."""
    kept = {name: share for name, each in outcomes.items() if (share := _gradient_share(each)) is not None}
    ranked = sorted((name for name in losses if name in kept), key=lambda name: losses[name])
    if len(ranked) < 2:
        return ""
    best, worst = ranked[0], ranked[-1]
    return (
        f"Before the first step, the gradient of the first layer's last matrix is {kept[worst]:.2g} of the last "
        f"layer's in {worst}, and {kept[best]:.2g} in {best}."
    )


def _gradient_share(outcome: Outcome) -> float | None:
    """First layer over last, in the last stack of the model, before training."""
    shares = []
    for run in outcome.runs:
        facts = (
            {} if run.start is None else next((each.facts for each in run.start.measures if each.key == GRADIENT), {})
        )
        found = [value for name, value in facts.items() if name.endswith(SHARE)]
        shares += found[-1:]
    return statistics.fmean(shares) if shares else None


def _what_to_use(outcomes: Mapping[str, Outcome], losses: Mapping[str, float]) -> str:
    best = min(losses, key=lambda name: losses[name])
    fastest = min((each.seconds for each in outcomes.values() if each.seconds), default=None)
    seconds = outcomes[best].seconds
    cost = f", at {seconds / fastest:.2f} times the time of the fastest" if seconds and fastest else ""
    return f"Best here: {best}, validation loss {losses[best]:.2f}{cost}."


def _outcomes(runs: Sequence[RunStory]) -> dict[str, Outcome]:
    schemes = dict.fromkeys(run.scheme for run in runs)
    return {scheme: Outcome(scheme, [run for run in runs if run.scheme == scheme]) for scheme in schemes}


def _size(depth: str) -> int:
    return sum(int(part) for part in depth.split("-"))
