"""Gradients by layer of deep encoder–decoders at initialisation, and the Jacobians of one sub-layer behind them.

Takase et al. 2022, figure 3 and equations 3 and 4: in post-LN decoders the gradient decays towards the input, in pre-LN
it grows, and B2T weakens the decay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from lamina.diagnosis.measurement import Axes
from lamina.diagnosis.measures.reading import layer_outputs
from lamina.model.stack import Stack
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject, record_stacks
from lamina.studies.papers.scheme_panels import scheme_panel
from lamina.studies.papers.theory import TwoMatrices
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.samples import Sample
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

SCHEMES = ("post-ln", "pre-ln", "b2t")
STACKS = ("encoder", "decoder")


class B2TFig3(Study):
    paper = "b2t"
    title = "Gradients by layer of 18-18 models"
    substitutions = (SUBSTITUTION,)

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        seeds = range(1, context.choose(micro=3, otherwise=10) + 1)
        depth = context.choose(micro=3, otherwise=18)
        for seed in seeds:
            for scheme in ("post-ln", "pre-ln"):
                yield row("Jacobian difference", jacobian_difference(scheme, seed), seed, scheme=scheme)
        for at, scheme in enumerate(SCHEMES):
            context.progress("gradients by layer", at, len(SCHEMES))
            subject = initial_subject(context, scheme, (depth, depth))
            for seed in seeds:
                for name, stack in record_stacks(subject, seed).items():
                    for layer, output in enumerate(layer_outputs(stack), start=1):
                        yield row("gradient", output.gradient_norm, seed, scheme=scheme, stack=name, layer=layer)

    @claim("B-02", "The Jacobian of a Post-LN sub-layer is J_LN · (I + J_F)", paper="equation 3, exact")
    def post_ln_jacobian(self, results: ResultTable) -> Verdict:
        return below("largest difference", results.sample("Jacobian difference", scheme="post-ln"), 1e-5)

    @claim("B-03", "The Jacobian of a Pre-LN sub-layer is I + J_F · J_LN", paper="equation 4, exact")
    def pre_ln_jacobian(self, results: ResultTable) -> Verdict:
        return below("largest difference", results.sample("Jacobian difference", scheme="pre-ln"), 1e-5)

    @claim("B-04", "Post-LN: gradients of the decoder decay exponentially towards the input", paper="figure 3 b")
    def decays(self, results: ResultTable) -> Verdict:
        decoder = results.where(scheme="post-ln", stack="decoder")
        return all_of(
            (
                above("slope of ln g by layer", decoder.slope("layer", "gradient", log_y=True), 0.08),
                above("R²", decoder.r_squared("layer", "gradient", log_y=True), 0.8),
            )
        )

    @claim(
        "B-05",
        "Pre-LN: gradients are smaller in higher layers",
        paper="figure 3 a, b",
        remark="X-16 calls the same gradients nearly equal in all layers; both fit a slow decline.",
    )
    def smaller_above(self, results: ResultTable) -> Verdict:
        return all_of(
            below(f"{stack}: slope of ln g", pre.slope("layer", "gradient", log_y=True, stack=stack), 0.0)
            for pre in [results.where(scheme="pre-ln")]
            for stack in STACKS
        )

    @claim("B-06", "B2T weakens the decay", paper="figure 3 b")
    def weakened(self, results: ResultTable) -> Verdict:
        b2t, post = (_lowest_to_highest(results, scheme) for scheme in ("b2t", "post-ln"))
        return above("g(lowest) ÷ g(highest layer): B2T ÷ Post-LN", b2t / post, 2.0)

    @claim("B-07", "B2T does not remove the decay", paper="figure 3 b")
    def remains(self, results: ResultTable) -> Verdict:
        return below("g(lowest) ÷ g(highest layer)", _lowest_to_highest(results, "b2t"), 1.0)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        panels = [
            scheme_panel(f"{letter}: {stack}", results, "layer", "gradient", SCHEMES, stack=stack)
            for letter, stack in zip("ab", STACKS, strict=True)
        ]
        caption = "Gradient norms at the outputs of the layers of 18-18 models. Bands: 95 % intervals over seeds."
        return [Exhibit("Figure 3", caption, panels, Axes(x="layer", y="gradient norm", log_y=True))]


def _lowest_to_highest(results: ResultTable, scheme: str) -> Sample:
    return results.first_to_last("layer", "gradient", scheme=scheme, stack="decoder")


def jacobian_difference(scheme: str, seed: int, dim: int = 16) -> float:
    """The largest difference between autograd's Jacobian of one sub-layer and the paper's product of Jacobians."""
    torch.manual_seed(seed)
    stack = Stack([[TwoMatrices(dim)]], model_dim=dim, residual=scheme, init=None, dropout=0.0).double()
    layer, x = stack.layers[0], torch.randn(dim, dtype=torch.float64)
    branch, norm = layer.sublayers[0], layer.sites[0].get_submodule("norm")
    identity = torch.eye(dim, dtype=torch.float64)
    if scheme == "post-ln":
        expected = _jacobian(norm, x + branch(x)) @ (identity + _jacobian(branch, x))
    else:
        expected = identity + _jacobian(branch, norm(x)) @ _jacobian(norm, x)
    return (_jacobian(lambda v: layer(v, {}), x) - expected).abs().max().item()


def _jacobian(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    found = torch.autograd.functional.jacobian(function, x)  # type: ignore[no-untyped-call]
    assert isinstance(found, Tensor)
    return found.detach()
