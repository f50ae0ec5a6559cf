"""Repeated layers and norms of foreign modules, found without running them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lamina.diagnosis.recording.structure import find_norms, find_repeated_layers, is_cross_attention, is_norm
from lamina.errors import UserError


class Opaque(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)


class Block(Opaque): ...


def test_no_repeated_layers() -> None:
    with pytest.raises(UserError, match=r"no repeated layers.*found 2 Linear, 1 ReLU.*nn.ModuleList"):
        find_repeated_layers(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)))


def test_patterns_and_lists_inside_layers() -> None:
    experts = nn.ModuleList([nn.ModuleList([Opaque() for _ in range(8)]) for _ in range(4)])
    (layers,) = find_repeated_layers(nn.ModuleDict({"layers": experts}))
    assert (layers.path, len(layers.members), layers.period) == ("layers", 4, 1)
    mixed = nn.ModuleList([nn.ModuleList([Block()]), nn.ModuleList([Opaque()])] * 1 + [nn.ModuleList([Block()])])
    with pytest.raises(UserError, match="no repeated layers"):
        find_repeated_layers(mixed)
    pattern = nn.ModuleList([nn.ModuleList([kind()]) for kind in (Block, Opaque) * 3])
    (layers,) = find_repeated_layers(pattern)
    assert (layers.period, layers.num_layers) == (2, 3)


class Stage(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 8) for _ in range(2))


class AttentionDecoderLayer(Opaque): ...


class MambaDecoderLayer(Opaque): ...


def test_stages_of_different_width_are_stacks_of_their_own() -> None:
    found = find_repeated_layers(nn.ModuleDict({"stages": nn.ModuleList([Stage(4), Stage(8)])}))
    assert [(each.name, each.num_layers) for each in found] == [("stages.0", 2), ("stages.1", 2)]
    (same,) = find_repeated_layers(nn.ModuleDict({"stages": nn.ModuleList([Stage(4), Stage(4)])}))
    assert same.path == "stages", "groups of one width are layers"


def test_whole_layers_of_several_classes_are_layers_in_any_order() -> None:
    kinds = (MambaDecoderLayer, MambaDecoderLayer, AttentionDecoderLayer, MambaDecoderLayer)
    (hybrid,) = find_repeated_layers(nn.ModuleDict({"layers": nn.ModuleList(kind() for kind in kinds)}))
    assert (hybrid.period, hybrid.num_layers) == (1, 4)


def test_layers_that_share_their_weights() -> None:
    (tied,) = find_repeated_layers(nn.ModuleDict({"layers": nn.ModuleList([Block()] * 3)}))
    assert (len(tied.members), tied.calls_repeat) == (3, False)
    (called,) = find_repeated_layers(nn.ModuleDict({"groups": nn.ModuleList([nn.ModuleList([Block()])])}))
    assert (called.path, called.calls_repeat) == ("groups", True)


def test_what_a_norm_is() -> None:
    class Rms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(4)

    class ScaleNorm(nn.Module): ...

    class PreNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.fn = nn.LayerNorm(4), nn.Linear(4, 4)

    assert all(map(is_norm, (nn.LayerNorm(4), nn.RMSNorm(4), Rms(), ScaleNorm())))
    others = (nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.PReLU(), nn.Linear(4, 4), nn.Dropout(), PreNorm(), Outer())
    assert not any(map(is_norm, others))
    assert [path for path, _ in find_norms(PreNorm())] == ["norm"]


def test_lists_are_named_after_the_module_that_holds_them() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.ModuleDict({"layers": nn.ModuleList([Opaque(), Opaque()])})
            self.blocks = nn.ModuleList([Block(), Block()])
            self.others = nn.ModuleList([Block(), Block()])

    assert [each.name for each in find_repeated_layers(Model())] == ["encoder", "blocks", "others"]
    assert [each.name for each in find_repeated_layers(nn.ModuleList([Block(), Block()]))] == ["stack"]


@pytest.mark.parametrize(
    ("path", "crosses"),
    [
        ("layers.0.multihead_attn", True),
        ("layers.0.encoder_attn", True),
        ("h.0.crossattention", True),
        ("decoder.block.0.layer.1.EncDecAttention", True),
        ("layers.0.self_attn", False),
        ("encoder.attention", False),
    ],
)
def test_cross_attention_by_name(path: str, crosses: bool) -> None:
    assert is_cross_attention(path, nn.Identity()) == crosses
