"""Language models, encoders with heads, embeddings."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina import UserError
from support.padded_tokens import REAL, SMALL, TOKENS


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "none"])
def test_language_model_padded_packed_and_token_by_token(positions: str) -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="decoder", positions=positions, **SMALL).eval()
    padded = model(TOKENS)
    packed = model(TOKENS[REAL], lengths=REAL.sum(1))
    torch.testing.assert_close(padded[REAL], packed, atol=1e-5, rtol=1e-5)
    cache = model.new_cache(3, capacity=5)
    first = model.step(TOKENS[:, :2].flatten(), [2, 2, 2], cache)
    torch.testing.assert_close(first.view(3, 2, -1), padded[:, :2], atol=1e-5, rtol=1e-5)
    second = model.step(TOKENS[:, 2], [1, 1, 1], cache)
    torch.testing.assert_close(second, padded[:, 2], atol=1e-5, rtol=1e-5)


def test_a_causal_model_does_not_look_ahead_and_an_encoder_does() -> None:
    changed = TOKENS.clone()
    changed[0, 3] = 30
    for kind, looks_ahead in (("decoder", False), ("encoder", True)):
        model = lamina.Transformer.from_preset("iwslt", kind=kind, **SMALL).eval()
        same = torch.equal(model(TOKENS)[0, :3], model(changed)[0, :3])
        assert same is not looks_ahead


def test_an_encoder_cannot_be_decoded_token_by_token() -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="encoder", **SMALL)
    with pytest.raises(UserError, match="only a causal model"):
        model.step(torch.tensor([1]), [1], model.new_cache(1, 3))


def test_adaptive_language_model_trains_all_bands() -> None:
    sizes = SMALL | {"vocab_size": 40, "adaptive_cutoffs": (6, 14)}
    model = lamina.Transformer.from_preset("lm", **sizes)
    losses = model(TOKENS, labels=torch.where(REAL, TOKENS + 20, 0) % 40).smoothed
    scores = model(TOKENS)
    assert scores.shape == (3, 5, 40)
    losses.mean().backward()
    assert all(parameter.grad is not None for parameter in model.tables.parameters())


def test_mismatches_are_explained() -> None:
    pairs = lamina.Transformer.from_preset("iwslt", **SMALL)
    with pytest.raises(UserError, match="3 source and 2 target sequences"):
        pairs(TOKENS, TOKENS[:2])
    bare = lamina.Transformer.from_preset("iwslt", kind="decoder", head="none", **SMALL)
    with pytest.raises(UserError, match="with a head can be decoded"):
        bare.step(torch.tensor([1]), [1], bare.new_cache(1, 3))
    with pytest.raises(UserError, match="no word losses"):
        bare(TOKENS, labels=TOKENS)
    adaptive = lamina.Transformer.from_preset("lm", **(SMALL | {"vocab_size": 40, "adaptive_cutoffs": (6, 14)}))
    with pytest.raises(UserError, match="outside the vocabulary of 40"):
        adaptive(TOKENS + 39)
