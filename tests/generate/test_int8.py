"""Weights of 8 bits: nearly the same scores, and a clear message if torch has no int8 kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lamina import UserError
from lamina.generate.int8 import quantise
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import score
from lamina.generate.search import generate
from lamina.model.transformer import Transformer
from support.ending_models import SENTENCES, language_model, translator
from support.plain_searches import BOS, EOS
from support.small_models import SMALL

TARGETS = [[at + 3, 25, 9] for at in range(len(SENTENCES))]


@pytest.mark.parametrize("kind", [translator, language_model])
@pytest.mark.parametrize("heads", [1, 2])
def test_scores_hardly_change_and_the_model_not_at_all(kind: Any, heads: int) -> None:
    model = kind(num_kv_heads=heads)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    small = quantise(model)
    assert type(small) is type(model)
    assert any("quantized" in type(module).__module__ for module in small.head.modules()), "the output table too"
    exact, rounded = (
        [each.log_probability / each.count for each in score(either, SENTENCES, TARGETS, bos=BOS, eos=EOS)]
        for either in (model, small)
    )
    assert rounded == pytest.approx(exact, abs=0.1), "nats per token"
    assert rounded != exact
    assert len(generate(small, SENTENCES, GenerateOptions(beam=2), bos=BOS, eos=EOS)) == len(SENTENCES)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("shared", ["none", "decoder"])
def test_an_adaptive_table_stays_as_it_is(shared: str) -> None:
    sizes = SMALL | {"num_layers": 1, "kind": "decoder", "shared_embeddings": shared, "adaptive_cutoffs": (10, 20)}
    model: Any = Transformer.from_preset("iwslt", **sizes)
    small = quantise(model)
    assert any("quantized" in type(module).__module__ for module in small.stack.modules())
    exact, rounded = (
        [each.log_probability / each.count for each in score(either, SENTENCES, TARGETS, bos=BOS, eos=EOS)]
        for either in (model, small)
    )
    assert rounded == pytest.approx(exact, abs=0.1), "nats per token"
    assert len(generate(small, SENTENCES, GenerateOptions(beam=2), bos=BOS, eos=EOS)) == len(SENTENCES)


def test_a_torch_without_int8_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch.ao.quantization.quantize_dynamic")
    with pytest.raises(UserError, match=r"no int8 linear layers.*CTranslate2"):
        quantise(translator())
