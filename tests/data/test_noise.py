"""Noise: its amount, the tokens it excludes, and that it depends on the token and not on the batch."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.data.noise import Masking, drop_words, permutation, uniforms
from lamina.data.packed import PackedField
from lamina.errors import UserError

SPECIAL = (0, 1, 2)
MASK = 3
VOCABULARY = 100


def field_of(rows: int, length: int = 50) -> tuple[PackedField, np.ndarray]:
    ids = np.random.default_rng(0).integers(4, VOCABULARY, (rows, length))
    ids[:, 0], ids[:, -1] = 1, 2
    return PackedField(ids.ravel(), np.full(rows, length)), np.arange(rows)


def part_of(field: PackedField, rows: np.ndarray) -> PackedField:
    return PackedField.of(field.sequences()[row] for row in rows)


masking = Masking(mask=MASK, vocabulary_size=VOCABULARY, special=SPECIAL, seed=4)


def test_fifteen_percent_are_chosen_and_masked_replaced_or_kept_in_proportion() -> None:
    field, examples = field_of(2000)
    masked = masking(field, examples, epoch=0)
    ordinary = ~np.isin(field.ids, SPECIAL)
    assert len(masked.chosen) / ordinary.sum() == pytest.approx(0.15, abs=0.005)
    now, before = masked.field.ids[masked.chosen], masked.labels
    assert np.mean(now == MASK) == pytest.approx(0.8, abs=0.01)
    assert np.mean(now == before) == pytest.approx(0.1 + 0.1 / 96, abs=0.01)
    replaced = now[(now != MASK) & (now != before)]
    assert set(np.unique(replaced)) == set(range(4, VOCABULARY))


def test_only_chosen_tokens_change_and_special_ones_never_do() -> None:
    field, examples = field_of(300)
    masked = masking(field, examples, epoch=0)
    assert not np.isin(masked.labels, SPECIAL).any()
    untouched = np.setdiff1d(np.arange(len(field.ids)), masked.chosen)
    assert np.array_equal(masked.field.ids[untouched], field.ids[untouched])
    assert np.array_equal(masked.labels, field.ids[masked.chosen])


@pytest.mark.parametrize("kind", ["masking", "word dropout"])
def test_noise_does_not_depend_on_the_batch_an_example_comes_in(kind: str) -> None:
    field, examples = field_of(40)

    def noisy(rows: np.ndarray, epoch: int) -> list[list[int]]:
        part = part_of(field, rows)
        if kind == "masking":
            done = masking(part, examples[rows], epoch).field
        else:
            done = drop_words(part, examples[rows], probability=0.3, replacement=0, seed=1, epoch=epoch)
        return [sequence.tolist() for sequence in done.sequences()]

    whole = noisy(np.arange(40), 0)
    shuffled = np.random.default_rng(1).permutation(40)
    assert [whole[row] for row in shuffled] == noisy(shuffled, 0)
    assert whole[::2] == noisy(np.arange(40)[::2], 0)
    assert whole != noisy(np.arange(40), 1)


def test_word_dropout_has_its_rate_and_excludes_spared_tokens() -> None:
    field, examples = field_of(1000)
    dropped = drop_words(field, examples, probability=0.1, replacement=3, seed=0, epoch=0, spared=SPECIAL)
    changed = dropped.ids != field.ids
    assert changed.sum() / (~np.isin(field.ids, SPECIAL)).sum() == pytest.approx(0.1, abs=0.005)
    assert (dropped.ids[changed] == 3).all()
    assert not changed[np.isin(field.ids, SPECIAL)].any()
    none = drop_words(field, examples, probability=0.0, replacement=3, seed=0, epoch=0)
    assert np.array_equal(none.ids, field.ids)


def test_purposes_are_independent() -> None:
    rows, positions = np.repeat(np.arange(300), 50), np.tile(np.arange(50), 300)
    first, second = (uniforms(rows, positions, purpose, 0) for purpose in ("source", "target"))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


def test_uniforms_are_uniform_along_both_coordinates() -> None:
    numbers = uniforms(np.repeat(np.arange(400), 100), np.tile(np.arange(100), 400), "test").reshape(400, 100)
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 2000) ** 2 / 2000).sum() < 45  # chi-square with 19 degrees of freedom: one in a thousand is above
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.02


def test_randomness_is_the_same_in_every_release() -> None:
    assert permutation(8, "test", 1).tolist() == [2, 1, 7, 4, 3, 6, 5, 0]
    assert uniforms(np.array([0, 1, 2**40]), np.array([0, 5, 7]), "test", 1).tolist() == [
        0.3593074370490351,
        0.7682545041934831,
        0.6381971278394781,
    ]


def test_impossible_noise_is_refused() -> None:
    field, examples = field_of(2)
    with pytest.raises(UserError, match="between 0 and 1"):
        drop_words(field, examples, probability=1.5, replacement=0, seed=0, epoch=0)
    with pytest.raises(UserError, match="all 4 tokens"):
        Masking(mask=3, vocabulary_size=4, special=SPECIAL, seed=0)
