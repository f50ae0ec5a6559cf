"""All claims of the papers are registered, each once."""

from __future__ import annotations

from collections import Counter

from lamina.studies.papers import STUDIES
from lamina.studies.pending_claims import PENDING

COUNTS = {"X": 26, "S": 10, "B": 39, "R": 39, "A": 51}


def test_every_claim_is_stated_once() -> None:
    stated = [claim.id for study in STUDIES.members.values() for claim in study.claims]
    ids = [*stated, *(each.id for each in PENDING)]
    assert not [id for id, number in Counter(ids).items() if number > 1], "delete rows of studies/pending_claims.py"
    assert sorted(ids) == sorted(
        f"{letter}-{number:02}" for letter, count in COUNTS.items() for number in range(1, count + 1)
    )
