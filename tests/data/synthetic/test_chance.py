"""Random draws: the same everywhere, with the frequencies they should have."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from lamina.data.synthetic.chance import chance, fair_labels, pick, zipf_stock


def test_a_purpose_gives_the_same_numbers_on_every_machine() -> None:
    draw = chance("test", 1)
    assert [draw() for _ in range(3)] == [0.9874787174370534, 0.28520748038452415, 0.48792210362540234]
    assert chance("test", 1)() == 0.9874787174370534
    assert chance("test", 2)() != 0.9874787174370534


def test_frequent_words_occur_several_times_in_a_stock_and_all_at_least_once() -> None:
    stock = zipf_stock([("a", 0), ("b", 1), ("c", 20)], 12)
    assert Counter(stock) == {"a": 4, "b": 3, "c": 1}
    draw = chance("picks")
    assert Counter(pick(draw, stock) for _ in range(800)).most_common(1)[0][0] == "a"


def test_labels_are_balanced_in_every_two() -> None:
    labels = list(islice(fair_labels(chance("labels")), 200))
    assert all(sum(labels[at : at + 2]) == 1 for at in range(0, 200, 2))
    assert 0 < sum(labels[::2]) < 100
