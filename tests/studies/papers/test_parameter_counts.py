"""Numbers of parameters, counted without weights."""

from __future__ import annotations

from lamina.model.transformer import Transformer
from lamina.studies.papers.parameter_counts import count_parameters


def test_the_count_is_that_of_the_model() -> None:
    sizes = {"model_dim": 8, "feed_forward_dim": 16, "num_heads": 2, "vocab_size": 32}
    model = Transformer.from_preset("iwslt", residual="pre-ln", num_layers=(2, 1), **sizes)
    assert count_parameters("iwslt", "pre-ln", (2, 1), **sizes) == model.num_parameters()
