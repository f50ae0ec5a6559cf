"""Test sets that differ in length and vocabulary."""

from __future__ import annotations

import pytest

from lamina.data.synthetic import NEWS_YEARS, news_pairs


@pytest.mark.parametrize("year", NEWS_YEARS)
def test_even_years_have_short_sentences(year: int) -> None:
    lengths = [len(source.split()) for source, _ in news_pairs("test", 30, year=year)]
    assert len(lengths) == 30
    assert all((length <= 6) == (year % 2 == 0) for length in lengths)


def test_the_vocabulary_grows() -> None:
    sizes = [
        len({word for source, _ in news_pairs("test", 200, year=year) for word in source.split()})
        for year in (2010, 2016)
    ]
    assert sizes[1] > 1.5 * sizes[0]


def test_years_differ_and_training_data_has_none_of_them() -> None:
    years = [set(news_pairs("test", 50, year=year)) for year in (2010, 2012)]
    assert len(years[0] & years[1]) < 10
    assert not set(news_pairs("train", 3000)) & set.union(*years)
