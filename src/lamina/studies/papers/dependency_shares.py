"""The shares β_ij of branches in the streams of encoders at initialisation, and the variances they follow from.

Liu et al. 2020, figures 7 and 8. j = 0 is the embedding.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import torch

from lamina.diagnosis.measures.layer_dependency import shares
from lamina.diagnosis.measures.reading import branch_of, stream, variance
from lamina.diagnosis.recording.own import own_stacks, recording
from lamina.diagnosis.recording.passes import Pass
from lamina.diagnosis.recording.records import StackRecord
from lamina.residual.admin import AdminSite
from lamina.studies.result_table import ResultRow, row

START = "initialisation"


def record_encoder(model: torch.nn.Module, run: Pass) -> StackRecord:
    """The record of the encoder in a forward pass."""
    with recording(model) as found, torch.no_grad():
        run(model)
    return found.stacks[0]


def measure_shares(encoder: StackRecord, seed: int, scheme: str, stage: str = START) -> Iterator[ResultRow]:
    """β_ij, the sum of their squares, and the variance of the stream, for every sub-layer i."""
    kinds = ["embedding", *(sublayer.place.kind for sublayer in encoder.sublayers)]
    labels = {"scheme": scheme, "stage": stage}
    for i, line in enumerate(shares(encoder), start=1):
        yield row("Σβ²", sum(share**2 for share in line), seed, i=i, **labels)
        yield row("variance of the stream", variance(encoder, stream(encoder)[i]), seed, i=i, **labels)
        yield row("β of the own branch", line[-1], seed, i=i, kind=kinds[i], **labels)
        earlier = [share for j, share in enumerate(line[:-1]) if kinds[j] == kinds[i]]
        if earlier:
            yield row("own β ÷ largest earlier β", line[-1] / max(earlier), seed, i=i, **labels)
        for j, share in enumerate(line):
            yield row("β", share, seed, i=i, j=j, kind=kinds[j], **labels)


def measure_predictions(encoder: StackRecord, seed: int, scheme: str) -> Iterator[ResultRow]:
    """β²_ii divided by what the variances of stream and branches predict."""
    for i, (line, expected) in enumerate(zip(shares(encoder), expected_squares(encoder), strict=True), start=1):
        yield row("β² ÷ prediction", line[-1] ** 2 / expected, seed, scheme=scheme, i=i)


def expected_squares(encoder: StackRecord) -> list[float]:
    """β²_ii by the variances: Var f_i ÷ (Var x₀ + Σ_{j≤i} Var f_j); with ω, Var f_i ÷ (ω_i² Var x_{i−1} + Var f_i)."""
    branches = [variance(encoder, branch_of(encoder, sublayer)) for sublayer in encoder.sublayers]
    before = [variance(encoder, state) for state in stream(encoder)[:-1]]
    omegas = omegas_of(encoder)
    if omegas:
        totals = [omega**2 * x + f for omega, x, f in zip(omegas, before, branches, strict=True)]
    else:
        totals = list(accumulate(branches, initial=before[0]))[1:]
    return [f / total for f, total in zip(branches, totals, strict=True)]


def omegas_of(encoder: StackRecord) -> list[float]:
    """ω of every sub-layer of an Admin stack at initialisation; empty for other schemes."""
    assert encoder.own is not None
    sites = [site for layer in encoder.own.layers for site in layer.sites]
    return [site.omega.mean().item() for site in sites if isinstance(site, AdminSite)]


def ratio_of_first_variances(encoder: StackRecord) -> float:
    """Var[x₀] ÷ the mean of Var[f]: the number of branches that the embedding counts for."""
    branches = [variance(encoder, branch_of(encoder, sublayer)) for sublayer in encoder.sublayers]
    return variance(encoder, stream(encoder)[0]) * len(branches) / sum(branches)


def double_branch(model: torch.nn.Module, number: int) -> None:
    """Double the output of one sub-layer of the encoder, from 1, which must be a feed-forward sub-layer."""
    _, encoder = own_stacks(model)[0]
    matrices = encoder.entries[number - 1].matrices
    with torch.no_grad():
        for matrix in matrices:
            if matrix.writes_branch:
                matrix.weight.mul_(2)
