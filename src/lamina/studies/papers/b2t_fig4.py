"""Gradients at the places inside one decoder layer: they drop at the layer norms.

Takase et al. 2022, figures 4 and 7: (1) … (5) are the sum after self-attention, its norm's output, the sum after
cross-attention, its norm's output, and the sum after feed-forward. We add (6), the output of the last norm.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from lamina.diagnosis.measurement import Axes
from lamina.diagnosis.recording.records import StackRecord
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject, record_stacks
from lamina.studies.papers.scheme_panels import scheme_panel
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

PLACES = range(1, 7)


class B2TFig4(Study):
    paper = "b2t"
    title = "Gradients inside decoder layers 1, 9 and 18"
    substitutions = (SUBSTITUTION,)

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        depth = context.choose(micro=3, otherwise=18)
        subject = initial_subject(context, "post-ln", (depth, depth))
        for seed in range(1, context.choose(micro=3, otherwise=10) + 1):
            decoder = record_stacks(subject, seed)["decoder"]
            for layer in sorted({1, depth // 2, depth}):
                for place, norm in zip(PLACES, gradients_inside(decoder, layer), strict=True):
                    yield row("gradient", norm, seed, scheme="post-ln", layer=layer, place=place)

    @claim("B-08", "The drop happens at the layer norms", paper="figures 4 and 7")
    def drops_at_norms(self, results: ResultTable) -> Verdict:
        return all_of(_steps(results))

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        caption = (
            "Gradient norms inside a post-LN decoder layer of an 18-18 model. (1), (3), (5): the sums before the norms "
            "of self-attention, cross-attention and feed-forward; (2), (4): the outputs of the first two norms. (6), "
            "the output of the layer, is not in the paper's figures."
        )
        axes = Axes(x="place", y="gradient norm")
        layers = sorted({int(each.labels["layer"]) for each in results})
        return [  # each with axes of its own, as in the paper: gradients of low layers are far smaller
            Exhibit(
                title,
                caption,
                [scheme_panel(f"decoder layer {layer}", results, "place", "gradient", ["post-ln"], layer=layer)],
                axes,
            )
            for layer, title in zip(layers, ("Figure 7 a", "Figure 7 b", "Figure 4"), strict=False)
        ]


def gradients_inside(decoder: StackRecord, layer: int) -> list[float | None]:
    """The gradient norms at the input and output of every norm of a post-LN layer, from 1."""
    norms = [each for each in decoder.norms if each.sublayer is not None]
    inside = [each for each in norms if decoder.sublayers[each.sublayer].place.layer == layer - 1]  # type: ignore[index]
    return [end.gradient_norm for norm in inside for end in (norm.input, norm.output)]


def _steps(results: ResultTable) -> Iterator[Verdict]:
    """The gradient below each step relative to that above it: at norms it shrinks, at residual sums it does not."""
    for layer in sorted({int(each.labels["layer"]) for each in results.where("gradient")}):
        for lower, upper in pairwise(PLACES):
            below_it, above_it = (results.sample("gradient", layer=layer, place=place) for place in (lower, upper))
            name = f"layer {layer}, ({upper}) to ({lower})"
            if lower % 2:
                yield below(f"norm, {name}", below_it / above_it, 1.0)
            else:
                yield above(f"residual sum, {name}", below_it / above_it, 0.95)
