"""Records: the depth of a stack, and where a weight matrix is."""

from __future__ import annotations

import torch

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.recording.records import MatrixName
from support.recorded import by_hand, tensor_record


def test_a_stack_has_as_many_layers_as_its_sublayers_name() -> None:
    states = [tensor_record(torch.zeros(1, 2)) for _ in range(7)]
    assert by_hand(states).stacks[0].num_layers == 6
    assert by_hand(states, per_layer=3).stacks[0].num_layers == 2


def test_a_matrix_is_located_by_layer_from_one_and_by_kind() -> None:
    name = MatrixName("decoder.layers.2.query.weight", "decoder", 2, "query", module="decoder.layers.2.query")
    assert name.location == Location(stack="decoder", layer=3, matrix="query")
    crossing = MatrixName("decoder.layers.2.cross.query.weight", "decoder", 2, "query", cross_attention=True)
    assert crossing.location == Location(stack="decoder", layer=3, sublayer_kind="cross-attention", matrix="query")


def test_a_matrix_of_no_layer_is_located_by_its_module_or_its_path() -> None:
    assert MatrixName("head.weight", "", None, "output", module="head").location == Location(module="head")
    assert MatrixName("table", "", None, "embedding").location == Location(module="table")
