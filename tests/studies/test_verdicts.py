"""Verdicts: when a comparison holds, does not hold or is undecided."""

from __future__ import annotations

import pytest

from lamina.studies.samples import Sample
from lamina.studies.verdicts import Verdict, above, all_of, at_least, below, close, failed, trained, undecided, within

HIGH, LOW = Sample({1: 5.0, 2: 5.1, 3: 5.2}), Sample({1: 1.0, 2: 1.1, 3: 1.3})
WIDE = Sample({1: -4.0, 2: 5.0, 3: 9.0})
GONE = Sample({1: None, 2: None, 3: None})


def test_a_clear_difference_decides() -> None:
    assert above("x", HIGH, LOW).outcome == "holds"
    assert above("x", LOW, HIGH).outcome == "does not hold"
    assert below("x", LOW, HIGH).outcome == "holds"
    assert below("x", HIGH, 2.0).outcome == "does not hold"


def test_an_interval_that_contains_the_bound_is_undecided() -> None:
    verdict = above("x", WIDE, 0.0)
    assert (verdict.outcome, verdict.reason) == ("undecided", "the 95 % interval contains the bound")


def test_the_difference_is_paired() -> None:
    noisy, higher = Sample({1: 0.0, 2: 50.0, 3: 100.0}), Sample({1: 1.0, 2: 51.1, 3: 100.9})
    assert above("x", higher, noisy).outcome == "holds"
    assert above("x", higher, noisy).effect == pytest.approx(1.0)


def test_two_seeds_are_too_few_and_an_exact_value_is_enough() -> None:
    assert above("x", Sample({1: 5.0, 2: 5.0}), 1.0).reason == "fewer than 3 seeds"
    assert above("x", Sample.exact(5.0), 1.0).outcome == "holds"


def test_a_range_must_hold_the_whole_interval() -> None:
    assert within("x", HIGH, 4.0, 6.0).outcome == "holds"
    assert within("x", HIGH, 6.0, 7.0).outcome == "does not hold"
    assert within("x", HIGH, 5.1, 7.0).outcome == "undecided"
    assert close("x", HIGH, Sample({1: 5.1, 2: 5.1, 3: 5.2}), 0.5).outcome == "holds"
    assert close("x", HIGH, LOW, 0.5).outcome == "does not hold"


def test_a_side_that_failed_in_all_seeds_counts_as_infinitely_bad() -> None:
    assert above("bleu", HIGH, GONE).outcome == "holds"
    assert above("bleu", GONE, HIGH).outcome == "does not hold"
    assert above("loss", GONE, HIGH, better="lower").outcome == "holds"
    assert below("loss", HIGH, GONE).outcome == "holds"
    assert below("loss", GONE, HIGH).outcome == "does not hold"
    assert above("bleu", GONE, GONE).outcome == "undecided"
    assert above("bleu", Sample({1: 5.0, 2: None, 3: 5.0}), GONE).outcome == "undecided"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, ("does not hold", "holds")), (1, ("does not hold", "holds")), (2, ("undecided", "undecided"))]
    + [(3, ("undecided", "undecided")), (4, ("holds", "does not hold")), (5, ("holds", "does not hold"))],
)
def test_failures_are_counted_over_five_seeds(count: int, expected: tuple[str, str]) -> None:
    status = Sample({seed: None if seed < count else 1.0 for seed in range(5)})
    assert (failed("x", status).outcome, trained("x", status).outcome) == expected


def test_three_seeds_do_not_decide_whether_a_model_trains() -> None:
    assert failed("x", GONE).outcome == "undecided"


def _verdicts(*outcomes: str) -> list[Verdict]:
    return [Verdict(outcome=each, measured="m", reason="r" if each == "undecided" else "") for each in outcomes]  # type: ignore[arg-type]


def test_all_parts_must_hold_and_one_that_does_not_decides() -> None:
    assert all_of(_verdicts("holds", "holds")).outcome == "holds"
    assert all_of(_verdicts("holds", "undecided")).outcome == "undecided"
    assert all_of(_verdicts("holds", "undecided", "does not hold")).outcome == "does not hold"
    assert all_of(_verdicts("undecided")).reason == "r"


def test_a_claim_without_parts_is_undecided() -> None:
    assert all_of([]).outcome == at_least(0, []).outcome == "undecided"


def test_a_number_of_parts_must_hold() -> None:
    assert at_least(2, _verdicts("holds", "holds", "does not hold")).outcome == "holds"
    assert at_least(2, _verdicts("holds", "undecided", "does not hold")).outcome == "undecided"
    found = at_least(2, _verdicts("holds", "does not hold", "does not hold"))
    assert found.outcome == "does not hold"
    assert found.measured.startswith("1 of 3 hold")


def test_an_undecided_claim_says_why() -> None:
    assert undecided("no data").reason == "no data"


def test_of_many_parts_those_that_do_not_hold_are_shown() -> None:
    parts = [Verdict(outcome="holds", measured=f"part {at}") for at in range(8)]
    assert all_of(parts).measured == "8 of 8 parts hold; the first and last: part 0 · part 7"
    parts[3] = Verdict(outcome="does not hold", measured="part 3")
    assert all_of(parts).measured == "7 of 8 parts hold; the others: part 3"


def test_failed_runs_are_counted_in_words_and_parts_that_read_alike_are_written_once() -> None:
    good, gone = Sample({1: 1.0, 2: 1.0, 3: 1.0}), Sample(dict.fromkeys((1, 2, 3)))
    part = above("BLEU", good, gone)
    assert part.measured == "BLEU = 1; claimed: > no value, 3 of 3 runs failed"
    assert part.outcome == "holds"
    assert all_of([part, part, part]).measured == part.measured
    some = below("loss", Sample({1: 1.0, 2: 1.0, 3: 1.0, 4: None}), 2.0)
    assert some.measured == "loss = 1 (1 of 4 runs failed); claimed: < 2"
    assert within("ratio", good, 0.5, 1.5).measured == "ratio = 1; claimed: between 0.5 and 1.5"
    assert close("BLEU", good, 0.5, 1.0).measured == "BLEU, 1 − 0.5 = 0.5; claimed: between −1 and 1"
