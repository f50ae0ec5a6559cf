"""The outcome of an advice: what became of every candidate, which is best, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lamina.formatting import count, duration, short
from lamina.studies.advice.candidates import Candidate
from lamina.studies.advice.ladder import Ladder
from lamina.studies.samples import Sample


@dataclass
class CandidateOutcome:
    """What became of one candidate."""

    candidate: Candidate
    ruled_out: str = ""
    """Why it was not trained: the finding of its diagnosis, or that the budget did not suffice."""
    failed: str = ""
    """Why its training failed."""
    losses: dict[int, Sample] = field(default_factory=dict)
    """Validation losses by step, with a value for each seed."""
    seconds_per_step: float = 0.0

    @property
    def steps(self) -> int:
        """The steps of its last measurement."""
        return max(self.losses, default=0)

    @property
    def final(self) -> Sample:
        return self.losses.get(self.steps, Sample({}))

    @property
    def spread(self) -> str:
        """`1.25 (1.2 to 1.3)`: the mean, with the lowest and the highest of several seeds."""
        values = self.final.values
        if not values:
            return "–"
        return short(self.final.mean) + (f" ({short(min(values))} to {short(max(values))})" if len(values) > 1 else "")


@dataclass(frozen=True)
class Recommendation:
    """The answer: a candidate, and the evidence for it."""

    outcomes: Sequence[CandidateOutcome]
    """All candidates that were considered, best first; then those that failed, those ruled out, those not tried."""
    ladder: Ladder
    budget: float
    spent: float
    """Seconds that diagnoses and runs took together."""

    @property
    def finalists(self) -> list[CandidateOutcome]:
        """Candidates that reached the last rung, best first."""
        return [each for each in self.outcomes if each.steps == self.ladder.length and not each.failed]

    @property
    def tied(self) -> list[CandidateOutcome]:
        """The finalists that the best is not better than with every seed, including itself."""
        best, *others = self.finalists
        return [best, *(each for each in others if not _is_better(best.final, each.final))]

    @property
    def chosen(self) -> CandidateOutcome:
        """The best finalist; among equals the one that changes least in the config."""
        return min(self.tied, key=lambda each: each.candidate.changes)

    def sentences(self) -> list[str]:
        """The advice in words, and the reasons for it."""
        chosen, finalists = self.chosen, self.finalists
        said = [
            f"Use {chosen.candidate}: validation loss {chosen.spread} after {self.ladder.length:,} steps "
            f"({count(len(chosen.final.values), 'seed')})."
        ]
        if len(self.tied) > 1:
            others = "; ".join(f"{each.candidate}: {each.spread}" for each in self.tied if each is not chosen)
            said.append(
                f"It is tied with {others}. Neither is better with every seed, so the one that changes less in the "
                "config is advised."
            )
        elif len(finalists) > 1:
            second = finalists[1]
            said.append(f"With every seed it is better than the runner-up, {second.candidate}: {second.spread}.")
        said += self._at_an_end(chosen)
        reference = next((each for each in self.outcomes if each.candidate.changes == 0), None)
        if reference is not None and reference is not chosen:
            said.append(f"The config as it is: {describe(reference)}.")
        said.append(
            f"The search took {duration(self.spent)} of the budget of {duration(self.budget)}. It compared "
            f"{count(sum(bool(each.losses) for each in self.outcomes), 'candidate')} after "
            f"{' and '.join(f'{each:,}' for each in self.ladder.rungs)} steps."
        )
        return said

    def _at_an_end(self, chosen: CandidateOutcome) -> list[str]:
        """A warning where a learning rate beyond those that were compared may be better still."""
        rates = sorted({each.candidate.learning_rate for each in self.outcomes if each.losses})
        if len(rates) < 2 or chosen.candidate.learning_rate not in (rates[0], rates[-1]):
            return []
        end = "highest" if chosen.candidate.learning_rate == rates[-1] else "lowest"
        return [f"Its learning rate is the {end} that was compared; --rates can ask for others."]


def describe(outcome: CandidateOutcome) -> str:
    """What became of a candidate, in words."""
    if outcome.ruled_out:
        return f"ruled out: {outcome.ruled_out}"
    if outcome.failed:
        return f"failed: {outcome.failed}"
    if not outcome.losses:
        return "not tried: the budget did not suffice"
    return f"validation loss {outcome.spread} after {outcome.steps:,} steps"


def rank(outcomes: Sequence[CandidateOutcome]) -> list[CandidateOutcome]:
    """Best first: by the number of steps reached, then by the mean loss there; then those without a loss."""

    def key(each: CandidateOutcome) -> tuple[int, int, float]:
        group = 2 if each.ruled_out else 1 if each.failed else 3 if not each.losses else 0
        return group, -each.steps, each.final.mean if each.final.values else 0.0

    return sorted(outcomes, key=key)


def best_of(losses: Mapping[str, float], number: int) -> list[str]:
    """The names of the candidates with the lowest losses, best first."""
    return sorted(losses, key=lambda each: losses[each])[:number]


def _is_better(one: Sample, other: Sample) -> bool:
    """Whether the loss is lower with every seed that both have."""
    shared = [seed for seed in one.by_seed if seed in other.by_seed]
    pairs = [(one.by_seed[seed], other.by_seed[seed]) for seed in shared]
    return bool(pairs) and all(a is not None and (b is None or a < b) for a, b in pairs)
