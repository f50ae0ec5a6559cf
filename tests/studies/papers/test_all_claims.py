"""All claims of the papers are stated, each once."""

from __future__ import annotations

from collections import Counter

from lamina.studies.papers import STUDIES

COUNTS = {"X": 26, "S": 10, "B": 39, "R": 39, "A": 51}


def test_every_claim_is_stated_once() -> None:
    stated = [claim.id for study in STUDIES.members.values() for claim in study.claims]
    assert not [id for id, number in Counter(stated).items() if number > 1]
    assert sorted(stated) == sorted(
        f"{letter}-{number:02}" for letter, count in COUNTS.items() for number in range(1, count + 1)
    )
