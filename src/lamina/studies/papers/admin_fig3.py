"""Relative gradients along the sub-layers of 18-18 models: only post-LN decoders lose them, at cross-attention.

Liu et al. 2020, figure 3, Theorem 1 and Remark 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from lamina.diagnosis.measurement import Axes
from lamina.model.feed_forward import FeedForward
from lamina.model.stack import Stack
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import COLOURS, LineStyle, scheme_style
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject
from lamina.studies.papers.relative_gradients import KINDS, first_to_last, measure_relative_gradients
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, undecided, within

SCHEMES = ("pre-ln", "post-ln", "admin")
STACKS = ("encoder", "decoder")


class AdminFig3(Study):
    paper = "admin"
    title = "Relative gradients of 18-18 models by sub-layer"
    substitutions = (SUBSTITUTION,)

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        seeds = range(1, context.choose(micro=3, otherwise=10) + 1)
        depth = context.choose(micro=3, otherwise=18)
        for at, scheme in enumerate(SCHEMES):
            context.progress("gradients by sub-layer", at, len(SCHEMES))
            subject = initial_subject(context, scheme, (depth, depth))
            for seed in seeds:
                yield from measure_relative_gradients(subject, seed, scheme=scheme)
        for seed in seeds:
            yield row("Var[f] ÷ formula", feed_forward_variance_ratio(seed), seed)

    @claim(
        "A-06",
        "Gradients of Post-LN encoders do not vanish (Theorem 1)",
        paper="Var[Δx_{i−1}] ≥ Var[Δx_i]",
        remark="S-05 and R-02 derive a decay for any Post-LN stack.",
    )
    def encoders_keep_gradients(self, results: ResultTable) -> Verdict:
        slope = results.slope("sublayer", "gradient", log_y=True, scheme="post-ln", stack="encoder")
        return all_of(
            (
                above("g(first) ÷ g(last)", first_to_last(results, "encoder", scheme="post-ln"), 0.8),
                below("slope of ln g by sub-layer", slope, 0.01),
            )
        )

    @claim("A-07", "Pre-LN gradients never shrink downwards (Remark 1)", paper="Var[Δx_{i−1}] ≥ Var[Δx_i]")
    def never_shrink(self, results: ResultTable) -> Verdict:
        pre = results.where(scheme="pre-ln")
        return all_of(
            above(
                f"{stack}: least g(i) ÷ g(j), i < j", pre.reduce(least_share, "sublayer", "gradient", stack=stack), 0.97
            )
            for stack in STACKS
        )

    @claim("A-08", "Only the gradients of Post-LN decoders vanish", paper="figure 3")
    def only_post_ln_decoders(self, results: ResultTable) -> Verdict:
        return all_of(
            (below if (scheme, stack) == ("post-ln", "decoder") else above)(
                f"{scheme} {stack}: g(first) ÷ g(last)", first_to_last(results, stack, scheme=scheme), 0.3
            )
            for scheme in ("pre-ln", "post-ln")
            for stack in STACKS
        )

    @claim("A-09", "The gradient is lost at cross-attention", paper="figure 3, lower part")
    def lost_at_cross_attention(self, results: ResultTable) -> Verdict:
        decoder = results.where("share left", scheme="post-ln", stack="decoder")
        lost = decoder.sample("share left", kind="cross-attention")
        others = [
            below(f"cross-attention against {kind}", lost, decoder.sample("share left", kind=kind))
            for kind in KINDS
            if kind != "cross-attention"
        ]
        return all_of([below("share of g left at cross-attention", lost, 0.97), *others])

    @claim("A-10", "The variance of feed-forward branches is ½ D D_f Var[w1] Var[w2]", paper="formula")
    def branch_variance(self, results: ResultTable) -> Verdict:
        return within("Var[f] ÷ formula", results.sample("Var[f] ÷ formula"), 0.95, 1.05)

    @claim(
        "A-33",
        "Admin's gradients vanish like those of Post-LN, and it converges all the same",
        paper="said",
        remark="At initialisation Admin loses far less gradient than Post-LN: ω weighs the stream, so that its norms "
        "shrink the gradient less.",
    )
    def admin_vanishes(self, results: ResultTable) -> Verdict:
        ratio = below("decoder: g(first) ÷ g(last)", first_to_last(results, "decoder", scheme="admin"), 0.5)
        return all_of((ratio, undecided("no model was trained", "status after training")))

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        layers = results.where("gradient", kind="feed-forward")
        stacks = [
            Curve(
                f"{scheme} {stack}",
                layers.curve("layer", "gradient", scheme=scheme, stack=stack),
                LineStyle(
                    scheme_style(scheme).colour, "-" if stack == "decoder" else ":", "o" if stack == "decoder" else "s"
                ),
            )
            for stack in STACKS
            for scheme in SCHEMES
        ]
        decoder = results.where("gradient", scheme="post-ln", stack="decoder")
        kinds = [
            Curve(kind, decoder.curve("layer", "gradient", kind=kind), LineStyle(colour))
            for kind, colour in zip(KINDS, COLOURS[1:], strict=False)
        ]
        axes = Axes(x="layer", y="relative gradient norm", log_y=True)
        return [
            Exhibit(
                "Figure 3, upper part",
                "Gradient norms of the outputs of layers, divided by the largest in the same network, 18-18 models. "
                "The paper draws bars, and has no Admin in this figure.",
                [Panel("encoders and decoders", tuple(stacks))],
                axes,
            ),
            Exhibit(
                "Figure 3, lower part",
                "The same for every sub-layer of the Post-LN decoder: the gradient drops from the output of "
                "cross-attention to that of self-attention.",
                [Panel("post-ln decoder", tuple(kinds))],
                axes,
            ),
        ]


def least_share(norms: Sequence[float]) -> float:
    """The least g(i) ÷ g(j) over i < j."""
    return min(norms[low] / norms[high] for high in range(1, len(norms)) for low in range(high))


def feed_forward_variance_ratio(seed: int, dim: int = 512, inner: int = 1024) -> float:
    """Var[f] of a feed-forward sub-layer at initialisation for inputs N(0, I), divided by ½ D D_f Var[w1] Var[w2]."""
    torch.manual_seed(seed)
    sublayer = FeedForward(dim, inner)
    Stack([[sublayer]], model_dim=dim)  # initialises it
    weights = [matrix.weight for matrix in sublayer.matrices()]
    with torch.no_grad():
        branch = sublayer(torch.randn(1024, dim))
        formula = 0.5 * dim * inner * weights[0].var() * weights[1].var()
        return (branch.var() / formula).item()
