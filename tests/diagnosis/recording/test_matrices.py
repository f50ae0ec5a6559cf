"""Weight matrices by stack, layer and kind, and where results say they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.matrices import NamedMatrix, kind_of
from lamina.model.models import EncoderDecoder
from support.small_models import small_model


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("bert.encoder.layer.0.attention.self.query.weight", "query"),
        ("bert.encoder.layer.0.attention.output.dense.weight", "output"),
        ("bert.encoder.layer.0.crossattention.output.dense.weight", "output"),
        ("bert.encoder.layer.0.intermediate.dense.weight", "inner"),
        ("bert.encoder.layer.0.output.dense.weight", "outer"),
        ("transformer.h.0.attn.c_attn.weight", "query-key-value"),
        ("transformer.h.0.attn.c_proj.weight", "output"),
        ("transformer.h.0.mlp.c_fc.weight", "inner"),
        ("transformer.h.0.mlp.c_proj.weight", "outer"),
        ("model.layers.0.self_attn.k_proj.weight", "key"),
        ("model.layers.0.self_attn.o_proj.weight", "output"),
        ("model.layers.0.mlp.gate_proj.weight", "gate"),
        ("model.layers.0.mlp.down_proj.weight", "outer"),
        ("encoder.block.0.layer.0.SelfAttention.o.weight", "output"),
        ("encoder.block.0.layer.1.DenseReluDense.wo.weight", "outer"),
        ("layers.0.self_attn.in_proj_weight", "query-key-value"),
        ("layers.0.linear2.weight", "outer"),
        ("blocks.0.attn.proj.weight", "output"),
        ("attn_layers.layers.0.1.to_v.weight", "value"),
        ("model.layers.0.strange.weight", None),
        ("backbone.layers.0.mixer.in_proj.weight", None),
        ("model.layers.0.self_attn.query_proj.weight", "query"),
        ("model.layers.0.self_attn.q_proj.base_layer.weight", "query"),
        ("model.layers.0.self_attn.q_proj.lora_A.default.weight", "query lora_A"),
        ("model.layers.0.mlp.down_proj.lora_B.default.weight", "outer lora_B"),
    ],
)
def test_kinds_of_matrices_by_name(path: str, kind: str | None) -> None:
    assert kind_of(path) == kind


def test_matrices_by_stack_layer_and_kind() -> None:
    model = small_model("post-ln", num_layers=(1, 2))
    assert isinstance(model, EncoderDecoder)
    found = {each.name: each.parameter for each in find_layers(model).matrices}
    assert [name.kind for name in found][:2] == ["embedding", "query"]
    attention = ["query", "key", "value", "output"]
    decoder = [name for name in found if name.stack == "decoder"]
    assert [name.kind for name in decoder] == [*attention, *attention, "inner", "outer"] * 2
    assert [name.layer for name in decoder] == [0] * 10 + [1] * 10
    assert all(model.get_parameter(name.path) is parameter for name, parameter in found.items())


def crossing(matrices: list[NamedMatrix], layer: int) -> list[bool]:
    return [each.name.cross_attention for each in matrices if each.name.layer == layer and each.name.stack != "encoder"]


def test_matrices_of_cross_attention_are_told_apart() -> None:
    model = small_model("b2t", num_layers=(1, 2))
    assert crossing(find_layers(model).matrices, 1) == [False] * 4 + [True] * 4 + [False] * 2


def test_cross_attention_of_a_foreign_decoder_is_told_apart() -> None:
    model = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
    assert crossing(find_layers(model).matrices, 0) == [False] * 4 + [True] * 4 + [False] * 2


def test_where_a_matrix_is() -> None:
    model = small_model("b2t", num_layers=(1, 2))
    found = {each.name.path: each.name.location for each in find_layers(model).matrices}
    for path, location in found.items():
        if location.stack is None:
            assert model.get_submodule(location.module).weight is model.get_parameter(path)  # type: ignore[arg-type]
    decoder = [each for each in found.values() if each.stack == "decoder" and each.layer == 2]
    assert decoder[0] == Location(stack="decoder", layer=2, matrix="query")
    assert decoder[4] == Location(stack="decoder", layer=2, sublayer_kind="cross-attention", matrix="query")
    assert len(set(found.values())) == len(found), "no two share a location"


def test_a_fused_parameter_holds_three_matrices() -> None:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False)
    matrices = [each for each in find_layers(model).matrices if each.name.layer == 0][:3]
    assert [each.name.kind for each in matrices] == ["query", "key", "value"]
    weight = model.layers[0].self_attn.in_proj_weight
    assert all(each.parameter is weight for each in matrices)
    assert torch.equal(torch.cat([each.of(weight) for each in matrices]), weight)


def test_a_tied_weight_is_one_matrix_of_the_first_module() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 8)
            self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8)) for _ in range(2)])
            self.head = nn.Linear(8, 5)
            self.head.weight = self.embedding.weight

    found = [each.name for each in find_layers(Tied()).matrices]
    assert [each.path for each in found if each.layer is None] == ["embedding.weight"]
    assert found[0].location == Location(module="embedding")


def test_the_matrices_of_a_state_space_mixer_are_not_those_of_attention() -> None:
    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.A_log = nn.Parameter(torch.zeros(4, 2))
            self.in_proj, self.out_proj = nn.Linear(4, 12), nn.Linear(6, 4)

    model = nn.ModuleDict({"layers": nn.ModuleList(nn.ModuleDict({"mixer": Mixer()}) for _ in range(2))})
    kinds = {each.name.kind for each in find_layers(model).matrices}
    assert kinds == {"mixer.A_log", "mixer.in_proj", "mixer.out_proj"}
