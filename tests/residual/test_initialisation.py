"""The initialisation of every scheme, against the formulas of the papers."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
import torch
from torch import Tensor

from lamina import residual
from lamina.model.transformer import Transformer

ENCODER, DECODER = 3, 5
SIZES = {"model_dim": 64, "feed_forward_dim": 128, "num_heads": 2, "vocab_size": 300}


def weights(name: str, **options: object) -> dict[str, Tensor]:
    """All parameters of a model that differs from others only in its scheme: the random draws are the same."""
    torch.manual_seed(11)
    model = Transformer.from_preset(
        "iwslt", residual=name, num_layers=(ENCODER, DECODER), residual_options=options, **SIZES
    )
    return {key: value.detach() for key, value in model.named_parameters() if value.dim() == 2}


def factors(name: str, **options: object) -> dict[tuple[str, str], set[float]]:
    """By stack and matrix, the numbers that the scheme multiplies the base initialisation by."""
    base, changed = weights("post-ln"), weights(name, **options)
    found = defaultdict(set)  # rounded: a few in the last digit are the same number
    for key, value in base.items():
        stack, kind = key.split(".")[0], key.split(".")[-2]
        ratio = (changed[key] / value).nanmedian()
        torch.testing.assert_close(changed[key], ratio * value, atol=1e-7, rtol=1e-5)
        found[stack, kind].add(round(ratio.item(), 5))
    return found


CHANGED = ["deep-norm", "t-fixup", "fixup", "depth-scaled", "look-linear"]
UNCHANGED = [name for name in residual.names() if name not in (*CHANGED, "post-ln")]


@pytest.mark.parametrize("name", UNCHANGED)
def test_these_keep_the_base_initialisation(name: str) -> None:
    base, own = weights("post-ln"), weights(name)
    for key, value in base.items():
        assert torch.equal(value, own[key]), key


def test_every_scheme_is_covered_here() -> None:
    """Every scheme that changes the initialisation, other than by an option or ω, is tested below."""
    own = {scheme.name for scheme in residual.schemes() if "initialise" in vars(scheme)}
    assert own - {"b2t", "admin"} == set(CHANGED)


def test_t_fixup() -> None:
    encoder, decoder = 0.67 * ENCODER**-0.25, (9 * DECODER) ** -0.25
    expected = {
        "encoder": {"query": 1.0, "key": 1.0, "value": encoder * 2**0.5, "output": encoder},
        "decoder": {"query": 1.0, "key": 1.0, "value": decoder * 2**0.5, "output": decoder},
        "tables": {"source": (9 * ENCODER) ** -0.25},
    }
    found = factors("t-fixup")
    for stack, kinds in expected.items():
        for kind, factor in kinds.items():
            assert found[stack, kind] == {round(factor, 5)}, (stack, kind)
    for stack, factor in (("encoder", encoder), ("decoder", decoder)):
        assert found[stack, "inner"] == found[stack, "outer"] == {round(factor, 5)}


def test_t_fixup_scales_the_decoders_own_table_by_its_own_depth() -> None:
    torch.manual_seed(11)
    model = Transformer.from_preset(
        "iwslt", residual="t-fixup", num_layers=(ENCODER, DECODER), **(SIZES | {"shared_embeddings": "decoder"})
    )
    own = model.tables["target"].weight
    assert own.std().item() == pytest.approx(64**-0.5 * (9 * DECODER) ** -0.25, rel=0.02)


def test_fixup() -> None:
    total = 2 * ENCODER + 3 * DECODER
    found = factors("fixup")
    for stack in ("encoder", "decoder"):
        for kind in ("query", "key", "value"):
            assert found[stack, kind] == {round(total ** (-1 / 6), 5)}
        assert found[stack, "inner"] == {round(total**-0.5, 5)}
        assert found[stack, "output"] == found[stack, "outer"] == {0.0}


def test_depth_scaled() -> None:
    found = factors("depth-scaled")
    for stack, depth in (("encoder", ENCODER), ("decoder", DECODER)):
        for kind in ("query", "key", "value", "output", "inner", "outer"):
            assert sorted(found[stack, kind]) == pytest.approx(sorted(l**-0.5 for l in range(1, depth + 1)), abs=2e-5)


def test_b2t_scale_init() -> None:
    found = factors("b2t", scale_init=True)
    assert found["encoder", "query"] == found["encoder", "outer"] == {round(ENCODER**-0.5, 5)}
    assert found["decoder", "query"] == found["decoder", "outer"] == {round(DECODER**-0.5, 5)}


def test_deep_norm_draws_xavier_normal_with_its_gains() -> None:
    gains = {
        "encoder": 0.87 * (ENCODER**4 * DECODER) ** (-1 / 16),
        "decoder": (12 * DECODER) ** -0.25,
    }
    for key, value in weights("deep-norm").items():
        stack, kind = key.split(".")[0], key.split(".")[-2]
        if stack in gains:
            gain = 1.0 if kind in ("query", "key") else gains[stack]
            assert value.std().item() == pytest.approx(gain * math.sqrt(2 / sum(value.shape)), rel=0.05), key


def test_deep_norm_single_stack() -> None:
    torch.manual_seed(3)
    sizes = SIZES | {"kind": "decoder", "num_layers": 4}
    model = Transformer.from_preset("iwslt", residual="deep-norm", **sizes)
    assert model.stack.layers[0].sites[0].alpha == pytest.approx(8**0.25)
    inner = model.stack.layers[0].sublayers[1].inner.weight
    assert inner.std().item() == pytest.approx(32**-0.25 * math.sqrt(2 / sum(inner.shape)), rel=0.05)


def test_look_linear_feed_forward_is_linear_at_the_start() -> None:
    torch.manual_seed(3)
    model = Transformer.from_preset("iwslt", residual="look-linear", **SIZES)
    feed_forward = model.encoder.layers[0].sublayers[1]
    half = SIZES["feed_forward_dim"] // 2
    x, y = torch.randn(4, 64), torch.randn(4, 64)
    torch.testing.assert_close(feed_forward(x + 2 * y), feed_forward(x) + 2 * feed_forward(y), atol=1e-5, rtol=1e-4)
    product = feed_forward.outer.weight[:, :half] @ feed_forward.inner.weight[:half]
    torch.testing.assert_close(feed_forward(x), x @ product.T, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["deep-norm", "t-fixup", "fixup"])
def test_some_schemes_require_xavier_for_any_init(name: str) -> None:
    assert residual.find(name).base_initialisation == "xavier"
    torch.manual_seed(5)
    one = Transformer.from_preset("iwslt", residual=name, **SIZES)
    torch.manual_seed(5)
    other = Transformer.from_preset("iwslt", residual=name, init="theory", **SIZES)
    for (key, value), expected in zip(other.encoder.named_parameters(), one.encoder.parameters(), strict=True):
        assert torch.equal(value, expected), key


def test_t_fixup_single_stack_takes_the_decoders_factors() -> None:
    torch.manual_seed(3)
    model = Transformer.from_preset("iwslt", residual="t-fixup", kind="decoder", num_layers=4, **SIZES)
    inner, table = model.stack.layers[0].sublayers[1].inner.weight, model.tables["input"].weight
    assert inner.std().item() == pytest.approx(36**-0.25 * math.sqrt(2 / sum(inner.shape)), rel=0.05)
    assert table[1:].std().item() == pytest.approx(64**-0.5 * 36**-0.25, rel=0.05)


def test_t_fixup_embeddings_start_from_xavier_in_every_kind_of_table() -> None:
    torch.manual_seed(3)
    sizes = SIZES | {"kind": "decoder", "num_layers": 4}
    normal = Transformer.from_preset("iwslt", residual="t-fixup", init="normal", **sizes).tables["input"].weight
    assert normal[1:].std().item() == pytest.approx(64**-0.5 * 36**-0.25, rel=0.05)
    adaptive = Transformer.from_preset("lm", residual="t-fixup", **(sizes | {"adaptive_cutoffs": (100, 200)}))
    for band in adaptive.tables["input"].bands:
        width = band.table.embedding_dim
        assert band.table.weight[1:].std().item() == pytest.approx(width**-0.5 * 36**-0.25, rel=0.1)
    untied = (
        Transformer.from_preset("iwslt", residual="t-fixup", shared_embeddings="none", **SIZES).tables["output"].weight
    )
    assert untied[1:].std().item() == pytest.approx(64**-0.5, rel=0.05), "an output matrix is no embedding"


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder"])
@pytest.mark.parametrize("shared", ["all", "none"])
def test_fixup_output_table_of_its_own_starts_at_zero(kind: str, shared: str) -> None:
    sizes = SIZES | {"kind": kind, "num_layers": 2, "shared_embeddings": shared}
    model = Transformer.from_preset("iwslt", residual="fixup", **sizes)
    assert model.output_table.weight.any().item() == (shared == "all")
    other = Transformer.from_preset("iwslt", residual="pre-ln", **sizes)
    assert other.output_table.weight.any()


def test_fixup_ends_with_a_shift_and_in_the_encoder_with_a_gain() -> None:
    model, x = Transformer.from_preset("iwslt", residual="fixup", **SIZES), torch.randn(3, 64)
    encoder, decoder = model.encoder.residual, model.decoder.residual
    with torch.no_grad():
        encoder.final_shift.shift.fill_(0.5)
        encoder.final_gain.fill_(3.0)
        decoder.final_shift.shift.fill_(0.25)
    torch.testing.assert_close(encoder.close(x), 3 * (x + 0.5))
    torch.testing.assert_close(decoder.close(x), x + 0.25)
    assert decoder.final_gain is None
    single = Transformer.from_preset("iwslt", residual="fixup", **(SIZES | {"kind": "decoder"})).stack.residual
    assert single.final_gain is None


def test_fixup_shifts_before_the_gate_of_swiglu_without_biases() -> None:
    model = Transformer.from_preset("iwslt", residual="fixup", activation="swiglu", bias=False, **SIZES)
    feed_forward, x = model.encoder.layers[0].sublayers[1], torch.randn(3, 64)
    with torch.no_grad():
        for parameter in feed_forward.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    gate = torch.nn.functional.silu(x @ feed_forward.gate.weight.T + feed_forward.activation_slot.shift)
    hidden = gate * (x @ feed_forward.inner.weight.T) + feed_forward.slot.shift
    torch.testing.assert_close(feed_forward(x), hidden @ feed_forward.outer.weight.T, atol=1e-5, rtol=1e-5)


def test_fixup_shifts_stand_before_every_matrix_and_activation() -> None:
    """x ← x + g·f(x + b), and inside f two more shifts: by hand, on Lamina's own feed-forward."""
    torch.manual_seed(3)
    model = Transformer.from_preset("iwslt", residual="fixup", **SIZES)
    site, feed_forward = model.encoder.layers[0].sites[1], model.encoder.layers[0].sublayers[1]
    with torch.no_grad():
        for parameter in (*site.parameters(), *feed_forward.parameters()):
            parameter.add_(0.2 * torch.randn_like(parameter))
    x = torch.randn(3, 64)
    inner = (x + site.outer.shift) @ feed_forward.inner.weight.T + feed_forward.inner.bias
    inner = torch.relu(inner + feed_forward.activation_slot.shift)
    branch = (inner + feed_forward.slot.shift) @ feed_forward.outer.weight.T + feed_forward.outer.bias
    torch.testing.assert_close(site.write(x, feed_forward(site.read(x))), x + site.gain * branch, atol=1e-5, rtol=1e-5)
