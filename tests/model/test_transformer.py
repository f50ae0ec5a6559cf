"""What all models share: tables, initialisation, construction."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina import UserError, residual
from support.padded_tokens import SMALL, TOKENS


def test_tied_tables_are_one_parameter_and_saved_once() -> None:
    tied = lamina.Transformer.from_preset("iwslt", **SMALL)
    assert list(tied.tables) == ["source"]
    sizes = {}
    for shared in ("all", "decoder", "none"):
        sizes[shared] = lamina.Transformer.from_preset("iwslt", shared_embeddings=shared, **SMALL).num_parameters()
    assert sizes["decoder"] - sizes["all"] == sizes["none"] - sizes["decoder"] == 40 * 16


@pytest.mark.parametrize("activation", ["relu", "gelu", "swiglu", "linear"])
@pytest.mark.parametrize("norm", [{"kind": "rms"}, {"kind": "layer", "bias": False, "eps": 1e-6}])
def test_modern_parts_work_together(activation: str, norm: dict[str, object]) -> None:
    model = lamina.Transformer.from_preset(
        "iwslt",
        kind="decoder",
        activation=activation,
        norm=norm,
        num_kv_heads=1,
        positions="rotary",
        bias=False,
        **SMALL,
    )
    losses = model(TOKENS, labels=TOKENS).smoothed
    losses.sum().backward()
    assert losses.isfinite().all()
    assert not any(key.endswith("bias") for key, _ in model.stack.named_parameters())


@pytest.mark.parametrize("name", residual.names())
def test_same_seed_same_weights(name: str) -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(8)
        states.append(lamina.Transformer.from_preset("iwslt", residual=name, **SMALL).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder", "encoder"])
def test_whole_models_run_on_the_meta_device(kind: str) -> None:
    with torch.device("meta"):
        model = lamina.Transformer.from_preset("iwslt", kind=kind, **SMALL)
    tokens = TOKENS.to("meta")
    scores = model(tokens, tokens) if kind == "encoder-decoder" else model(tokens)
    scores.sum().backward()
    assert scores.is_meta


def test_a_model_that_does_not_fit_is_refused_with_its_size() -> None:
    with pytest.raises(UserError, match=r"does not fit into memory: 192,[\d,]+ parameters, .* GiB in fp32"):
        lamina.Transformer.from_preset("base", model_dim=4_000_000, num_layers=1)
    with pytest.raises(UserError, match="does not fit into memory: make it smaller"):
        lamina.Transformer.from_preset("base", model_dim=4_000_000_000, num_layers=1)
