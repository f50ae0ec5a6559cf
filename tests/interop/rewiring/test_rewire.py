"""Rewiring: the scheme a model has changes nothing, another one is the scheme's own loop over the same sub-layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import lamina
from lamina.errors import UserError
from lamina.residual.norm import NormOptions
from support.library_models import MODELS, batch_of, library_model_of

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")

SCHEMES = ("post-ln", "pre-ln", "resi-dual", "b2t", "siamese", "hyper-connections", "deep-norm", "sandwich-ln")


@pytest.mark.parametrize("name", MODELS)
def test_its_own_scheme_changes_nothing(name: str) -> None:
    model, batch = library_model_of(name), batch_of(name)
    before = model(**batch).logits
    assert lamina.rewire(model, MODELS[name][3]) is model
    torch.testing.assert_close(model(**batch).logits, before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_another_scheme_is_initialised_and_gives_gradients(name: str) -> None:
    model, batch = library_model_of(name), batch_of(name)
    before = copy.deepcopy(model.state_dict())
    lamina.rewire(model, "resi-dual")
    logits = model(**batch).logits
    assert logits.isfinite().all()
    logits.square().mean().backward()
    layers = {key: value for key, value in model.state_dict().items() if key in before and value.dim() > 1}
    assert any(not torch.equal(before[key], value) for key, value in layers.items())
    sites = [parameter for key, parameter in model.named_parameters() if "lamina_" in key]
    assert sites
    assert all(each.grad is not None for each in sites)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_streams_between_layers_are_those_of_a_plain_loop(scheme: str) -> None:
    model = library_model_of("gpt2")
    lamina.rewire(model, scheme, keep_weights=True)
    inner, ids = model.transformer, torch.randint(5, 60, (2, 6))
    x = inner.wte(ids) + inner.wpe(torch.arange(6))
    state = inner.lamina_residual.open(x)
    for block in inner.h:
        for site, branch in zip(block.lamina_sites, (lambda y, b=block: b.attn(y)[0], block.mlp), strict=True):
            state = site.write(state, branch(site.read(state)))
    expected = inner.lamina_residual.close(state)
    torch.testing.assert_close(inner(ids).last_hidden_state, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bart", "t5"])
def test_generation_with_and_without_cache(name: str) -> None:
    model = library_model_of(name)
    lamina.rewire(model, "hyper-connections", keep_weights=True)
    given: dict[str, Any] = {"input_ids": batch_of(name)["input_ids"], "do_sample": False, "max_new_tokens": 5}
    assert torch.equal(model.generate(**given), model.generate(**given, use_cache=False))
    assert model.generate(**given, num_beams=2).shape[0] == 2


def test_gradient_checkpointing_leaves_gradients_as_they_are() -> None:
    model, batch = library_model_of("llama"), batch_of("llama")
    lamina.rewire(model, "resi-dual", keep_weights=True).train()

    def gradient() -> torch.Tensor:
        model.zero_grad()
        model(**batch, use_cache=False, labels=batch["input_ids"]).loss.backward()
        return model.get_input_embeddings().weight.grad.clone()

    plain = gradient()
    model.gradient_checkpointing_enable()
    torch.testing.assert_close(gradient(), plain)


def test_the_initialisation_is_the_schemes() -> None:
    model = library_model_of("gpt2")
    lamina.rewire(model, "deep-norm")
    values = model.transformer.h[0].attn.c_attn.weight.detach().T[64:]  # of query, key and value
    queries = model.transformer.h[0].attn.c_attn.weight.detach().T[:32]
    assert 0.4 < float(values.std() / queries.std()) < 0.6  # β = (8 · 2)^-1/4 = 0.5


def test_hidden_states_are_recorded_with_all_streams() -> None:
    model = library_model_of("gpt2")
    lamina.rewire(model, "resi-dual")
    states = model(**batch_of("gpt2"), output_hidden_states=True).hidden_states
    assert [each.shape[-1] for each in states] == [32, 64, 32]


def test_a_stream_in_full_precision_stays_so() -> None:
    model = library_model_of("gpt2").to(torch.bfloat16)
    lamina.rewire(model, "resi-dual")
    states = model(**batch_of("gpt2"), output_hidden_states=True).hidden_states
    assert states[1].dtype == torch.float32
    assert model(**batch_of("gpt2")).logits.dtype == torch.bfloat16


def test_a_scheme_that_is_calibrated() -> None:
    model, batch = library_model_of("bart"), batch_of("bart")
    with pytest.raises(UserError, match="admin is calibrated on a batch"):
        lamina.rewire(library_model_of("bart"), "admin")
    lamina.rewire(model, "admin", batch=batch)
    omegas = [parameter for name, parameter in model.named_parameters() if name.endswith("omega")]
    assert len(omegas) == 2 * 2 + 3 * 3
    assert any(float(each.detach()[0]) != 1 for each in omegas)
    assert model(**batch).logits.isfinite().all()


def test_options_and_norm_can_be_chosen() -> None:
    model = library_model_of("gpt2")
    lamina.rewire(model, "resi-dual", norm={"kind": "rms", "eps": 1e-6}, dual_scale=0.5)
    residual = model.transformer.lamina_residual
    assert residual.options.dual_scale == 0.5
    assert residual.norm_options == NormOptions(kind="rms", eps=1e-6)
    with pytest.raises(UserError, match="dual_scal"):
        lamina.rewire(library_model_of("gpt2"), "resi-dual", dual_scal=0.5)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("dlcl", "gains a tensor per layer"),
        ("fixup", "parameters inside the sub-layers"),
        ("resi-duel", "did you mean 'resi-dual'"),
    ],
)
def test_schemes_that_are_refused(scheme: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        lamina.rewire(library_model_of("gpt2"), scheme)


def test_models_that_are_refused() -> None:
    with pytest.raises(UserError, match="Linear is none of the models that can be rewired: Bert, Roberta"):
        lamina.rewire(torch.nn.Linear(2, 2), "post-ln")
    with pytest.raises(UserError, match="add_cross_attention"):
        lamina.rewire(library_model_of("gpt2", add_cross_attention=True), "post-ln")
    model = lamina.rewire(library_model_of("gpt2"), "post-ln")
    with pytest.raises(UserError, match="rewired already"):
        lamina.rewire(model, "pre-ln")
