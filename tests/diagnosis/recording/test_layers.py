"""The layers of a model, and the stack from which the loss is computed."""

from __future__ import annotations

import torch
from torch import nn

from lamina.diagnosis.recording.layers import find_layers, unwrap
from support.small_models import small_model, small_stack


def test_schemes_and_layers_of_own_stacks() -> None:
    found = find_layers(small_model("b2t", num_layers=(1, 2)))
    assert found.schemes == ("b2t",)
    assert {stack: len(layers) for stack, layers in found.layers.items()} == {"encoder": 1, "decoder": 2}


def test_layers_of_a_pattern_have_several_modules() -> None:
    class One(nn.Sequential): ...

    class Other(nn.Sequential): ...

    found = find_layers(nn.ModuleList([kind(nn.Linear(3, 3)) for kind in (One, Other) * 3]))
    assert [len(layer) for layer in found.layers["stack"]] == [2, 2, 2]
    assert found.schemes == ()


def test_the_loss_is_computed_from_the_stack_with_cross_attention_else_from_the_last() -> None:
    assert find_layers(small_model("pre-ln")).output_stack == "decoder"
    transformer = nn.Transformer(8, 2, 2, 2, 16)
    assert find_layers(transformer).output_stack == "decoder"
    decoder_first = nn.ModuleDict({"decoder": transformer.decoder, "encoder": transformer.encoder})
    assert find_layers(decoder_first).output_stack == "decoder", "wherever it stands"
    two = nn.ModuleDict({"lower": small_stack("pre-ln", 2), "upper": small_stack("pre-ln", 2)})
    assert find_layers(two).output_stack == "upper"


def test_compiled_models_are_unwrapped() -> None:
    stack = small_stack("pre-ln", 2)
    assert unwrap(torch.compile(stack)) is stack  # type: ignore[arg-type]
    assert unwrap(stack) is stack
