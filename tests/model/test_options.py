"""The options of a model: values of a preset, options of the schemes, pairs, and mistakes that are explained."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina import UserError
from lamina.model.options import DECIDED, ModelChoices, ModelOptions, pair
from lamina.model.presets import PRESETS
from lamina.residual.admin import Admin
from lamina.residual.hyper_connections import HyperConnections


def test_a_preset_sets_what_is_not_given() -> None:
    preset = PRESETS["iwslt"]
    chosen = ModelChoices(preset="iwslt", num_heads=2)
    assert chosen.num_heads == 2 != preset["num_heads"]
    assert chosen.feed_forward_dim == preset["feed_forward_dim"] != ModelChoices().feed_forward_dim


def test_each_scheme_has_its_own_options() -> None:
    chosen = ModelChoices(residual=("admin", "hyper-connections"), residual_options=({}, {}))
    assert isinstance(chosen.residual_options, tuple)
    assert [type(each) for each in chosen.residual_options] == [Admin.Options, HyperConnections.Options]
    assert ModelChoices(residual="peri-ln").residual == "sandwich-ln", "an alias is stored as the name"
    with pytest.raises(UserError, match="a list of two"):
        ModelChoices.read({"residual_options": [{}, {}, {}]}, where="model")


def test_what_the_task_decides_is_no_choice() -> None:
    assert {"kind", "head", "vocab_size", "num_classes"} <= set(DECIDED)
    with pytest.raises(UserError, match="unknown option 'vocab_size'"):
        ModelChoices.read({"vocab_size": 100}, where="model")
    assert ModelOptions.read({"vocab_size": 100}, where="model").vocab_size == 100


def test_a_setting_is_for_both_stacks_unless_it_is_a_pair() -> None:
    assert pair(6) == (6, 6)
    assert pair((12, 2)) == (12, 2)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("iwlst", {}, r"unknown preset 'iwlst'; did you mean 'iwslt'"),
        ("iwslt", {"init": "xaver"}, r"init: unknown value 'xaver'; did you mean 'xavier'"),
        ("iwslt", {"residual": "postln"}, r"residual: unknown residual scheme 'postln'; did you mean 'post-ln'"),
        ("iwslt", {"num_layer": 2}, r"unknown option 'num_layer'; did you mean 'num_layers'"),
        ("iwslt", {"num_layers": 0}, r"num_layers.*must be at least 1"),
        ("iwslt", {"num_heads": 3}, r"num_heads 3 does not divide model_dim 512"),
        ("iwslt", {"norm": {"epsilon": 1}}, r"unknown option 'epsilon'; did you mean 'eps'"),
        (
            "iwslt",
            {"residual": "pre-ln", "residual_options": {"eta": 1}},
            r"_options.eta: unknown option 'eta'",
        ),
        ("iwslt", {"vocab_size": (10, 20)}, r"vocabularies differ; use 'decoder' or 'none'"),
        ("lm", {"num_layers": (2, 2)}, r"num_layers is a pair, but a model of kind 'decoder' has one stack"),
        ("iwslt", {"adaptive_cutoffs": (5,)}, r"adaptive_cutoffs are for language models"),
        ("lm", {"vocab_size": 100}, r"adaptive_cutoffs .* must rise and lie between 1 and the vocabulary of 100"),
        ("iwslt", {"head": "classes"}, r"an encoder-decoder predicts words"),
        ("lm", {"head": "classes", "adaptive_cutoffs": ()}, r"head 'classes' needs kind 'encoder'"),
        ("iwslt", {"num_layers": (0, 2)}, r"num_layers.0: must be at least 1 \(given: 0\)"),
        ("iwslt", {"num_layers": True}, r"num_layers is a number or a word, not true"),
        ("iwslt", {"dropout": float("nan")}, r"dropout: .*finite"),
        ("iwslt", {"padding_index": 10_000}, r"padding_index 10000 lies outside"),
        ("iwslt", {"dropout": 1.5}, r"dropout: .*less than 1"),
    ],
)
def test_mistakes_are_explained(name: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message), torch.device("meta"):
        lamina.Transformer.from_preset(name, **changes)
