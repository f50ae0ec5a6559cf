"""Random batches fit the model that they are made for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.interop.random_input import random_batches


class Fake(nn.Module):
    """A model as transformers describes it: a config, the name of its main input, and perhaps an output table."""

    def __init__(self, main_input_name: str, *, predicts_words: bool = False, **config: Any) -> None:
        super().__init__()
        self.main_input_name, self.predicts_words = main_input_name, predicts_words
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(vocab_size=10), **config)

    def get_output_embeddings(self) -> nn.Module | None:
        return nn.Linear(2, 10) if self.predicts_words else None

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> None: ...


class FakeForClassification(Fake):
    """A model whose name implies that labels are classes."""


def test_tokens_are_in_the_vocabulary_without_padding_and_as_long_as_the_model_takes() -> None:
    model = Fake("input_ids", predicts_words=True, pad_token_id=3, max_position_embeddings=8)
    first, second = random_batches(model, batches=2, tokens=32)
    assert first["input_ids"].shape == first["labels"].shape == (4, 8)
    assert not (first["input_ids"] == 3).any()
    assert 0 <= int(first["input_ids"].min()) <= int(first["input_ids"].max()) < 10
    assert not torch.equal(first["input_ids"], second["input_ids"])
    again = random_batches(model, batches=1, tokens=32)[0]
    assert torch.equal(again["input_ids"], first["input_ids"]), "the same in every run"


def test_labels_are_classes_or_words_or_none() -> None:
    (batch,) = random_batches(FakeForClassification("input_ids", num_labels=2), 1, 128)
    assert batch["labels"].shape == (2,)
    assert int(batch["labels"].max()) < 2
    assert "labels" not in random_batches(Fake("input_ids"), 1, 128)[0]


def test_pictures_and_sound_have_the_shape_of_the_config() -> None:
    (batch,) = random_batches(Fake("pixel_values", image_size=8, patch_size=4, num_channels=3), 1, 20)
    assert batch["pixel_values"].shape == (4, 3, 8, 8)
    (batch,) = random_batches(Fake("input_features", num_mel_bins=5, max_source_positions=7), 1, 20)
    assert batch["input_features"].shape == (1, 5, 14)
    assert random_batches(Fake("input_values"), 1, 50)[0]["input_values"].shape == (2, 8000)


def test_an_input_without_a_recipe_is_refused_with_the_way_out() -> None:
    with pytest.raises(UserError, match=r"takes smells.*lamina.diagnose\(model, batch\)"):
        random_batches(Fake("smells"), 1, 20)
