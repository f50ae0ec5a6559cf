"""The papers' sizes."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina.model.options import ModelOptions
from lamina.model.presets import PRESETS
from lamina.model.sequences import Sequences


def count(name: str, **changes: object) -> int:
    with torch.device("meta"):
        return lamina.Transformer.from_preset(name, **changes).num_parameters()


@pytest.mark.parametrize(
    ("name", "changes", "millions"),
    [  # Liu et al. 2020, appendix D; joint vocabularies of 10k, 37k and 44k, one shared table
        ("iwslt", {}, 37),
        ("base", {}, 63),
        ("base-12-12", {}, 107),
        ("base-18-18", {}, 151),
        ("wmt-en-fr", {}, 67),
        ("wmt-en-fr", {"num_layers": (60, 12)}, 262),
    ],
)
@pytest.mark.parametrize("residual", ["post-ln", "admin"])
def test_parameter_counts_are_the_papers(name: str, changes: dict[str, object], millions: int, residual: str) -> None:
    assert count(name, residual=residual, **changes) / 1e6 == pytest.approx(millions, rel=0.02)


@pytest.mark.parametrize(("name", "millions"), [("s2t-s", 30), ("s2t-m", 71)])
def test_speech_models_have_the_published_sizes(name: str, millions: int) -> None:
    """Those of fairseq's LibriSpeech example, with 10,000 units."""
    assert count(name, residual="pre-ln") / 1e6 == pytest.approx(millions, rel=0.02)


def test_the_6_6_speech_model_has_half_the_encoder() -> None:
    """Takase et al. 2022, Table 4: T-Md of Wang et al. 2020 with 6-6 and 12-6 layers."""
    layer = 4 * (512 * 512 + 512) + 2 * 512 * 2048 + 2048 + 512 + 4 * 512
    assert count("s2t-m", residual="b2t") - count("s2t-m-6-6", residual="b2t") == 6 * layer


def test_bert_base_has_the_published_size() -> None:
    """109.5 M in the published model: 110.1 M with its pooler (0.6 M), which only the classification head has here."""
    body = 30_522 * 768 + 512 * 768 + 2 * 768 + 2 * 768
    layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
    head = 768 * 768 + 768 + 2 * 768 + 30_522
    assert count("bert-base", residual="post-ln") == body + 12 * layer + head


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_and_keeps_its_numbers(name: str) -> None:
    options = ModelOptions(preset=name)
    with torch.device("meta"):
        model = lamina.Transformer.build(options)
    depths = options.num_layers if isinstance(options.num_layers, tuple) else (options.num_layers,) * 2
    assert [stack.shape.num_layers for stack in model.stacks()] == list(depths[: len(model.stack_names)])


def test_theory_preset_is_xiongs_setting() -> None:
    model = lamina.Transformer.from_preset("theory", residual="post-ln", num_layers=2)
    attention, feed_forward = model.stack.layers[0].sublayers
    assert not attention.query.weight.any()
    assert not attention.key.weight.any()
    assert isinstance(attention.output, torch.nn.Identity)
    assert attention.value.weight.std().item() == pytest.approx(512**-0.5, rel=0.02)
    assert feed_forward.inner.weight.shape == (512, 512)
    embedded = model.embedding(model.tables["input"], torch.arange(1, 2000), Sequences([1999]))
    assert (embedded.square().sum(-1) / 512).mean().item() == pytest.approx(1, rel=0.01), "inputs are N(0, I)"
    linear = lamina.Transformer.from_preset("theory-linear", num_layers=1).stack.layers[0].sublayers[1]
    x = torch.randn(3, 512)
    torch.testing.assert_close(linear(2 * x), 2 * linear(x))
