"""Made-up outcomes of candidates, and the advice that follows from them."""

from __future__ import annotations

from lamina.studies.advice.candidates import Candidate
from lamina.studies.advice.ladder import Ladder
from lamina.studies.advice.outcome import CandidateOutcome, Recommendation, rank
from lamina.studies.samples import Sample

LADDER = Ladder(candidates=4, first=10)


def made(scheme: str, changes: int, *last: float, rate: float = 1e-3) -> CandidateOutcome:
    """A finalist with these losses at the end of the ladder."""
    outcome = CandidateOutcome(Candidate((scheme,), 6, 64, 128, rate, changes))
    if last:
        outcome.losses = {10: Sample({1: 5.0}), 90: Sample(dict(enumerate(last, start=1)))}
    return outcome


def advice_of(*outcomes: CandidateOutcome) -> Recommendation:
    return Recommendation(rank(outcomes), LADDER, budget=180.0, spent=170.0)
