"""What all tasks share: counting padding, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina import UserError
from lamina.model.options import ModelChoices
from lamina.tasks import TASKS, build_task
from lamina.tasks.base import Vocabulary
from support.small_tasks import first_inputs, store_of, task_of


def test_padding_is_counted_where_it_is(folder: Path) -> None:
    """In attention scores alone: a grid of longest by longest for self-attention, target by source for cross."""
    task = task_of("translation", folder)
    inputs = first_inputs(task)
    source, target = inputs.lengths["source_lengths"], inputs.lengths["target_lengths"]
    assert len(inputs.tensors["source"]) == source.sum()
    computed, real = inputs.attention_cells()
    assert computed == len(source) * (source.max() ** 2 + target.max() ** 2 + source.max() * target.max())
    assert real == sum(s * s + t * t + s * t for s, t in zip(source.tolist(), target.tolist(), strict=True))
    assert 0 <= 1 - real / computed < 0.5, "batches hold sentences of like length"


@pytest.mark.parametrize(
    ("name", "of", "options", "message"),
    [
        (
            "translation",
            "language-modelling",
            {},
            "task 'translation' reads the field 'source', but the store has text",
        ),
        ("classification", "translation", {}, "reads the field 'first'"),
        ("multilingual-translation", "translation", {}, "not named like a pair of languages"),
        ("translation", "translation", {"label_smothing": 0.1}, "did you mean 'label_smoothing'"),
        ("translation", "translation", {"bleu": "blue"}, "unknown value 'blue'; did you mean 'bleu'"),
        ("language-modelling", "language-modelling", {"block_length": 8, "context": 8}, "shorter than block_length"),
        ("multilingual-translation", "multilingual-translation", {"centre": "tuv"}, "did you mean 'tuvo'"),
        ("translatoin", "translation", {}, "unknown task 'translatoin'; did you mean 'translation'"),
    ],
)
def test_mistakes(name: str, of: str, options: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(UserError, match=message):
        build_task(name, store_of(of, folder), options)


@pytest.mark.parametrize("size", [(300, 300), (300, 200)])
def test_one_table_for_two_unrelated_vocabularies_is_refused(size: tuple[int, int]) -> None:
    """Also where the two have the same number of tokens, which no shape would reveal."""
    translation = TASKS["translation"]
    choices = ModelChoices.read({"shared_embeddings": "all"}, where="model")
    with pytest.raises(UserError, match="vocabularies of their own; use 'decoder' or 'none'"):
        translation.complete_model(choices, Vocabulary(size, joint=False))
    assert translation.complete_model(choices, Vocabulary(300, joint=True))["shared_embeddings"] == "all"
    own = ModelChoices.read({}, where="model")
    assert translation.complete_model(own, Vocabulary(size, joint=False))["shared_embeddings"] == "decoder"
