"""Random batches for a model of transformers, with shapes and vocabulary from its config."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from lamina.errors import UserError

LENGTH = 64
"""The number of tokens of a sequence, or the model's maximum if that is smaller."""
POSITIONS = ("max_position_embeddings", "max_target_positions", "n_positions", "max_length")
SAMPLES = 8000
"""The number of samples of an audio input: half a second at 16 kHz."""


def random_batches(model: nn.Module, batches: int, tokens: int) -> list[dict[str, Tensor]]:
    """`batches` random batches of about `tokens` positions each, with labels if the model computes a loss."""
    generator = torch.Generator().manual_seed(0)
    return [_random_batch(model, tokens, generator) for _ in range(batches)]


def _random_batch(model: Any, tokens: int, generator: torch.Generator) -> dict[str, Tensor]:
    config, takes = model.config, inspect.signature(model.forward).parameters
    length = min([LENGTH, *(getattr(config, name) for name in POSITIONS if getattr(config, name, None))])

    def words(count: int) -> Tensor:
        vocabulary, padding = config.get_text_config().vocab_size, getattr(config, "pad_token_id", None)
        ids = torch.randint(vocabulary, (count, length), generator=generator)
        return ids if padding is None else torch.where(ids == padding, (padding + 1) % vocabulary, ids)

    if model.main_input_name == "input_ids":
        given = words(max(1, tokens // length))
    else:
        given = torch.randn(_shape(model, tokens), generator=generator)
    batch, count = {model.main_input_name: given}, len(given)
    if "labels" in takes and "Classification" in type(model).__name__:
        batch["labels"] = torch.randint(config.num_labels, (count,), generator=generator)
    elif "labels" in takes and _predicts_words(model):
        batch["labels"] = words(count)
    elif "decoder_input_ids" in takes:
        batch["decoder_input_ids"] = words(count)
    return batch


def _shape(model: Any, tokens: int) -> tuple[int, ...]:
    """The shape of an input that is not text, with as many examples as give about `tokens` positions."""
    config, name = model.config, model.main_input_name
    if name == "pixel_values":
        size = config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        patches = (height // getattr(config, "patch_size", height)) * (width // getattr(config, "patch_size", width))
        return max(1, tokens // (patches + 1)), config.num_channels, height, width
    if name == "input_features" and hasattr(config, "max_source_positions"):
        return 1, config.num_mel_bins, 2 * config.max_source_positions
    if name == "input_values":
        return max(1, tokens * 320 // SAMPLES), SAMPLES
    raise UserError(
        f"{type(model).__name__} takes {name}, for which no random batch can be made here; call "
        "lamina.diagnose(model, batch) in Python"
    )


def _predicts_words(model: Any) -> bool:
    return model.get_output_embeddings() is not None
