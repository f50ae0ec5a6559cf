"""The growth of the stream in B2T without layer norms, and the weights α and β that limit it.

Takase et al. 2022, equations 6 to 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from lamina.diagnosis.measures.reading import stream, variance
from lamina.diagnosis.recording.own import own_stacks, recording
from lamina.diagnosis.recording.records import StackRecord
from lamina.residual.b2t_no_norm import NoNormLastSite
from lamina.studies.papers.initial_models import initial_subject
from lamina.studies.result_table import ResultRow, row
from lamina.studies.study import StudyContext


class ConnectionWeights(NamedTuple):
    """The weights of the last residual connection of a layer, α·x_in + β·(x + f)."""

    alpha: float
    beta: float


WITHOUT_WEIGHTS = {"α = β = 1": ConnectionWeights(1.0, 1.0), "α = 0, β = 1": ConnectionWeights(0.0, 1.0)}
PAPER_WEIGHTS = "α and β of the paper"


def paper_alpha(num_layers: int) -> float:
    return min(num_layers / 12, num_layers**-0.15)


def measure_no_norm_streams(context: StudyContext, depth: int, weights: str, seed: int) -> Iterator[ResultRow]:
    """The standard deviation of the encoder's stream before the first layer (0) and after each, at width 512."""
    sizes: dict[str, Any] = (
        {} if context.scale == "micro" else {"model_dim": 512, "feed_forward_dim": 2048, "num_heads": 8}
    )
    subject = initial_subject(context, "b2t-no-norm", (depth, 1), **sizes)
    model = subject.build(seed)
    changed = WITHOUT_WEIGHTS.get(weights)
    for site in (site for _, stack in own_stacks(model) for layer in stack.layers for site in layer.sites):
        if changed is not None and isinstance(site, NoNormLastSite):
            site.alpha, site.beta = changed
    with recording(model) as found, torch.no_grad():
        subject.passes[0](model)
    for layer, deviation in enumerate(_deviations(found.stacks[0])):
        yield row("standard deviation", deviation, seed, weights=weights, depth=depth, layer=layer)


def _deviations(encoder: StackRecord) -> list[float]:
    states, per_layer = stream(encoder), len(encoder.sublayers) // encoder.num_layers
    return [variance(encoder, state) ** 0.5 for state in states[::per_layer]]
