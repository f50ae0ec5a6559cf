"""The lemmas of Xiong et al. 2020 and their supplement, on Gaussian vectors and on the stacks of the proofs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.diagnosis.measures.base import require
from lamina.diagnosis.recording.records import StackRecord
from lamina.model.stack import Stack
from lamina.studies.papers.theory import gaussian_inputs, run_theory, squared_norm, theory_stack
from lamina.studies.result_table import ResultRow, row
from lamina.studies.study import StudyContext

WIDTHS = (64, 128, 256, 512, 1024)
TAIL_SIZES, TAIL_BOUNDS = (64, 128, 256, 512, 1024), (0.05, 0.1, 0.2, 0.5)


def measure_vectors(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """Values about Gaussian vectors and one layer norm."""
    dim, draws = context.choose(micro=(64, 500), otherwise=(512, 20_000))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(draws, dim, generator=generator)
    yield row("squared norm after ReLU", squared_norm(x.relu()).mean().item(), seed)
    normed = F.layer_norm(3 * x[:500].double(), (dim,), eps=1e-12)
    yield row("squared norm after the norm", squared_norm(normed).mean().item(), seed)
    yield row("Jacobian norm ÷ (√d / ‖x − mean‖)", _jacobian_ratio(x[0, :64].double()), seed)
    largest = x.relu().square().amax(-1)
    yield row("share below 2 ln(100 d)", (largest < 2 * math.log(100 * dim)).double().mean().item(), seed)
    for size in TAIL_SIZES:
        squares = torch.randn(draws, size, generator=generator).square().sum(-1)
        for bound in TAIL_BOUNDS:
            share = ((squares - size) / size >= bound).double().mean().item()
            yield row("tail probability", share, seed, size=size, bound=bound)


def _jacobian_ratio(x: Tensor) -> float:
    """The spectral norm of the Jacobian of LN at x, divided by √d / ‖x − mean(x)‖."""
    jacobian = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
        lambda v: F.layer_norm(v, v.shape, eps=0.0), x
    )
    bound = math.sqrt(len(x)) / (x - x.mean()).norm().item()
    return torch.linalg.matrix_norm(jacobian, 2).item() / bound


def measure_stacks(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """Norms of streams and branches, Jacobians and gradients in the stacks of the proofs."""
    dim, layers = context.choose(micro=(32, 3), otherwise=(512, 12))
    inputs = F.layer_norm(gaussian_inputs(4, 32, dim, seed=seed), (dim,))  # of squared norm d, as the lemmas require
    for scheme, measure in (("post-ln", _of_post_ln), ("pre-ln", _of_pre_ln)):
        stack = theory_stack(scheme, layers, dim, seed=seed)
        record = run_theory(stack, inputs, "squared")
        last = squared_norm(record.norms[-1].input.value)
        share = ((last - last.mean()) / last.mean() > 0.1).double().mean().item()
        yield row("share beyond 10 %", share, seed, scheme=scheme)
        yield from measure(stack, record, seed)


def measure_sums(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """E‖x + f‖² ÷ d before every norm of post-LN: the mean over the weights of several stacks, in each of which it
    varies."""
    dim, layers, draws = context.choose(micro=(32, 3, 2), otherwise=(512, 12, 8))
    inputs = F.layer_norm(gaussian_inputs(4, 32, dim, seed=seed), (dim,))
    sums = torch.zeros(2 * layers)
    for draw in range(draws):
        record = run_theory(theory_stack("post-ln", layers, dim, seed=draws * seed + draw), inputs)
        sums += torch.stack([squared_norm(norm.input.value).mean() for norm in record.norms]) / draws
    for at, size in enumerate(sums.tolist()):
        kind = "feed-forward" if at % 2 else "attention"
        yield row("squared norm before the norm", size, seed, layer=at // 2 + 1, kind=kind)


def _of_post_ln(stack: Stack, record: StackRecord, seed: int) -> Iterator[ResultRow]:
    first, norm = record.sublayers[1], record.norms[1]
    share = squared_norm(require(first.branch).value).mean() / squared_norm(first.read.value).mean()
    yield row("squared norm of the branch", share.item(), seed)
    yield row("shrinkage at the norm", (1 / squared_norm(norm.input.value)).mean().sqrt().item(), seed)
    for number, layer in enumerate(stack.layers, start=1):
        yield row("theory gradient", _gradient_of_outer(layer), seed, layer=number)


def _of_pre_ln(stack: Stack, record: StackRecord, seed: int) -> Iterator[ResultRow]:
    for sublayer, norm in zip(record.sublayers, record.norms, strict=False):  # the last norm ends the stack
        if sublayer.place.last:
            layer, x = sublayer.place.layer + 1, norm.input.value
            size = squared_norm(sublayer.after[0].value).mean().item()
            yield row("squared norm of the stream", size, seed, layer=layer)
            deviation = (x - x.mean(-1, keepdim=True)).norm(dim=-1)
            yield row("norm Jacobian", (math.sqrt(x.shape[-1]) / deviation).mean().item(), seed, layer=layer)


def measure_widths(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """The gradient of the last W² of a post-LN stack, divided by the bound's d √ln d."""
    for width in context.choose(micro=(16, 32), otherwise=WIDTHS):
        stack = theory_stack("post-ln", context.choose(micro=2, otherwise=6), width, seed=seed)
        run_theory(stack, gaussian_inputs(4, 16, width, seed=seed), "squared")
        value = _gradient_of_outer(stack.layers[-1]) / (width * math.sqrt(math.log(width)))
        yield row("last gradient ÷ d √ln d", value, seed, width=width)


def _gradient_of_outer(layer: torch.nn.Module) -> float:
    """‖∂L/∂W²‖ of a layer."""
    gradient = layer.sublayers[1].outer.grad  # type: ignore[index, union-attr]
    assert isinstance(gradient, Tensor)
    return gradient.norm().item()
