"""Gradients and updates of weight matrices over a few steps of training (Liu et al. 2020, figures 5 and 11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import torch

from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.records import MatrixName
from lamina.diagnosis.recording.taps import norm_of
from lamina.studies.papers.trained_stages import TrainedStage

ATTENTION = ("query", "key", "value", "output")


@dataclass(frozen=True)
class MatrixNorms:
    """The norms of one weight matrix."""

    gradient: float
    """The mean over the steps of ‖∂L/∂W‖."""
    update: float
    """‖W after the steps − W before them‖."""
    size: int
    """The number of its weights."""


def norms_of_steps(stage: TrainedStage) -> dict[MatrixName, MatrixNorms]:
    """The norms of all matrices of layers over one step of the optimiser for each batch; the model is changed."""
    matrices = [each for each in find_layers(stage.model).matrices if each.name.layer is not None]
    before = {each.name: each.of(each.parameter).detach().clone() for each in matrices}
    gradients: dict[MatrixName, list[float]] = defaultdict(list)
    for run in stage.passes:
        stage.optimiser.zero_grad()
        torch.autograd.backward(run(stage.model))
        for each in matrices:
            assert each.parameter.grad is not None
            gradients[each.name].append(norm_of(each.of(each.parameter.grad)).item())
        stage.optimiser.step()
    return {
        each.name: MatrixNorms(
            fmean(gradients[each.name]),
            norm_of(each.of(each.parameter).detach() - before[each.name]).item(),
            before[each.name].numel(),
        )
        for each in matrices
    }


def attention_norms(norms: Mapping[MatrixName, MatrixNorms]) -> dict[MatrixName, MatrixNorms]:
    """Those of the matrices of attention."""
    return {name: each for name, each in norms.items() if name.kind in ATTENTION}


def share_of_smaller_queries(norms: Mapping[MatrixName, MatrixNorms]) -> float:
    """The share of attention sub-layers where the gradients of query and key are below those of value and output."""
    sublayers: dict[tuple[str, int | None, bool], dict[str, float]] = defaultdict(dict)
    for name, each in attention_norms(norms).items():
        sublayers[name.stack, name.layer, name.cross_attention][name.kind] = each.gradient
    smaller = [max(each["query"], each["key"]) < min(each["value"], each["output"]) for each in sublayers.values()]
    return fmean(smaller)


def spread_over_kinds(norms: Mapping[MatrixName, MatrixNorms]) -> float:
    """Of the update per weight, its root mean square over all matrices of a kind: the largest kind ÷ the least."""
    squares, sizes = defaultdict[str, float](float), defaultdict[str, int](int)
    for name, each in norms.items():
        squares[name.kind] += each.update**2
        sizes[name.kind] += each.size
    means = [(squares[kind] / sizes[kind]) ** 0.5 for kind in squares]
    return max(means) / min(means)
