"""Random models whose outputs end at different lengths."""

from __future__ import annotations

from typing import Any

import torch

from lamina.generate.decoder import Hypothesis, Model
from lamina.generate.options import GenerateOptions
from lamina.generate.search import generate
from lamina.model.models import SingleStack
from lamina.model.transformer import Transformer
from support.plain_searches import BOS, EOS
from support.small_models import SMALL, SOURCE, small_model

SENTENCES = [[3, 4, 5, 6, 7], [8, 9, 10], [11, 12, 13, 14], [15], [16, 3, 17], [4] * 9, [18, 19], [20, 5, 21, 6]]


def translator(residual: Any = "post-ln", *, seed: int = 0, num_layers: int = 2, **changes: Any) -> Model:
    torch.manual_seed(seed)
    return _with_ends(small_model(residual, num_layers, **{"shared_embeddings": "none"} | changes))


def language_model(residual: Any = "post-ln", *, seed: int = 0, num_layers: int = 2, **changes: Any) -> Model:
    torch.manual_seed(seed)
    chosen = SMALL | {"kind": "decoder", "num_layers": num_layers, "shared_embeddings": "none"} | changes
    model = Transformer.from_preset("iwslt", residual=residual, **chosen)
    assert isinstance(model, SingleStack)
    model.calibrate(SOURCE)
    return _with_ends(model)


def _with_ends(model: Any) -> Model:
    """Scores that differ, and an end-of-sentence token that is likely at some steps only."""
    with torch.no_grad():
        model.tables["output"].weight.normal_(0, 0.4)
        model.tables["output"].weight[EOS] *= 2.5
    return model.eval()


def outputs(model: Any, sources: Any = SENTENCES, prefixes: Any = None, **options: Any) -> list[list[Hypothesis]]:
    return generate(model, sources, GenerateOptions(**options), bos=BOS, eos=EOS, prefixes=prefixes)


def tokens(found: list[list[Hypothesis]]) -> list[list[list[int]]]:
    return [[each.tokens for each in hypotheses] for hypotheses in found]
