"""Gradients at initialisation by layer and by depth, and the lemmas behind them.

Xiong et al. 2020, figure 3, Lemmas 1–3, Theorem 1 and the supplement. At initialisation the gradient of the last layers
is large in post-LN at any depth, and falls as 1/√L in pre-LN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from lamina.diagnosis.measurement import Axes
from lamina.diagnosis.measures.layer_gradients import ExpectedGradient, NormsByLayer, norms_by_layer
from lamina.diagnosis.recording.passes import gradients_of
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import LineStyle, scheme_style
from lamina.runs.run import Run
from lamina.studies.papers.initial_models import SUBSTITUTION, expected_gradients, initial_subject
from lamina.studies.papers.scheme_panels import scheme_panel
from lamina.studies.papers.trained_models import SUBSTITUTIONS, WARMUP, model_run, of_trained_models
from lamina.studies.papers.trained_stages import BEFORE, stages_of
from lamina.studies.papers.xiong_lemmas import (
    TAIL_BOUNDS,
    TAIL_SIZES,
    measure_stacks,
    measure_sums,
    measure_vectors,
    measure_widths,
)
from lamina.studies.result_table import Label, ResultRow, ResultTable, row
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

SCHEMES = ("post-ln", "pre-ln")
DEPTHS = (6, 8, 10, 12, 14)
STACKS = ("encoder", "decoder")
MATRICES = ("inner", "outer")
START, AFTER_WARMUP = "initialisation", "after warm-up"
TRAINED_GRADIENT = "gradient of a trained model"


class XiongFig3(Study):
    paper = "xiong"
    title = "Gradients at initialisation, by layer and by depth"
    version = 2
    substitutions = (SUBSTITUTION, *of_trained_models(*SUBSTITUTIONS[:2]))

    def runs(self, scale: str) -> list[StudyRun]:
        """A model that is trained for the steps of the warm-up only."""
        return [model_run(scale, "iwslt", scheme="post-ln", depth="6-6", steps=WARMUP, labels={"model": "trained"})]

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        seeds = range(1, context.choose(micro=3, otherwise=10) + 1)
        for at, seed in enumerate(seeds):
            context.progress("lemmas", at, len(seeds))
            yield from measure_vectors(context, seed)
            yield from measure_sums(context, seed)
            yield from measure_stacks(context, seed)
            yield from measure_widths(context, seed)
        depths = context.choose(micro=(2, 3), otherwise=DEPTHS)
        for scheme in SCHEMES:
            for at, depth in enumerate(depths):
                context.progress(f"{scheme}, gradients by depth", at, len(depths))
                subject = initial_subject(context, scheme, (depth, depth))
                for seed in seeds:
                    found = expected_gradients(subject, seed)
                    yield row("last gradient", found["decoder", "outer"][depth], seed, scheme=scheme, depth=depth)
                    if depth == depths[0]:
                        yield from _by_layer(found, seed, scheme)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        for stage in stages_of(run):
            expected = ExpectedGradient()
            for each in stage.passes:
                expected.add(gradients_of(stage.model, each))
            name = START if stage.name == BEFORE else AFTER_WARMUP
            for found in _by_layer(norms_by_layer(expected.mean()), run.config.seed, "post-ln", name):
                yield found.model_copy(update={"quantity": TRAINED_GRADIENT})

    @claim("X-06", "ReLU halves the expected squared norm of a Gaussian vector (Lemma 1)", paper="1/2")
    def relu_halves(self, results: ResultTable) -> Verdict:
        return within("‖relu(X)‖² / (σ² d)", results.sample("squared norm after ReLU"), 0.49, 0.51)

    @claim("X-07", "Post-LN: inputs of the feed-forward norms have one size (Lemma 2)", paper="3/2")
    def same_size(self, results: ResultTable) -> Verdict:
        sizes = results.along("layer", "squared norm before the norm", kind="feed-forward")
        return all_of(within(f"layer {layer}: E‖x + f‖² / d", size, 1.45, 1.55) for layer, size in sizes.items())

    @claim("X-08", "Pre-LN: the stream's squared norm grows linearly (Lemma 2)", paper="1 + l/2 ≤ r ≤ 1 + 3l/2")
    def grows_linearly(self, results: ResultTable) -> Verdict:
        sizes = results.along("layer", "squared norm of the stream")
        return all_of(
            within(f"layer {layer}: E‖x‖² / d", size, 0.95 * (1 + float(layer) / 2), 1.05 * (1 + 1.5 * float(layer)))
            for layer, size in sizes.items()
        )

    @claim("X-09", "The Jacobian of a layer norm shrinks as its input grows (Lemma 3)", paper="O(√d / ‖x‖)")
    def jacobian(self, results: ResultTable) -> Verdict:
        ratio = results.sample("Jacobian norm ÷ (√d / ‖x − mean‖)")
        return within("‖J‖ ÷ (√d / ‖x − mean(x)‖)", ratio, 1 - 1e-6, 1 + 1e-6)

    @claim("X-10", "Squared norms concentrate in a new model", paper="share ≤ 0.125 beyond 10 %")
    def concentrate(self, results: ResultTable) -> Verdict:
        return all_of(
            below(f"{scheme}: share", results.sample("share beyond 10 %", scheme=scheme), 0.125) for scheme in SCHEMES
        )

    @claim(
        "X-11",
        "Post-LN: the gradient of the last feed-forward matrix does not depend on depth (Theorem 1)",
        paper="about 1.6 at every depth",
    )
    def same_at_every_depth(self, results: ResultTable) -> Verdict:
        ratio = results.largest_to_least("depth", "last gradient", scheme="post-ln")
        return below("largest ÷ least over depths", ratio, 1.3)

    @claim("X-12", "Pre-LN: it falls as one over the root of depth (Theorem 1)", paper="L^-1/2")
    def falls_with_depth(self, results: ResultTable) -> Verdict:
        power = results.slope("depth", "last gradient", log_x=True, log_y=True, scheme="pre-ln")
        return within("power of L", power, -0.75, -0.25)

    @claim("X-13", "Gradients of the last layer are larger in Post-LN", paper="figure 3 c, d")
    def larger_in_post_ln(self, results: ResultTable) -> Verdict:
        post, pre = (results.along("depth", "last gradient", scheme=scheme) for scheme in SCHEMES)
        return all_of(above(f"{depth} layers", post[depth], pre[depth]) for depth in post)

    @claim("X-14", "The bound d √ln d is not exceeded as width grows (Theorem 1)", paper="O(d √ln d)")
    def bounded_in_width(self, results: ResultTable) -> Verdict:
        shares = list(results.along("width", "last gradient ÷ d √ln d").items())
        return all_of(
            below(f"width {after} against {before}", larger - smaller, 0.0)
            for (before, smaller), (after, larger) in zip(shares, shares[1:], strict=False)
        )

    @claim(
        "X-15",
        "Post-LN: expected gradients grow with the layer index",
        paper="figure 3 a, b",
        remark="They do in the decoder; in the encoder hardly, for which A-06 gives the reason.",
    )
    def grow_with_layer(self, results: ResultTable) -> Verdict:
        return all_of(
            above(f"{place}: slope of ln G", results.slope("layer", "gradient", log_y=True, **labels), 0.05)
            for place, labels in _places("post-ln")
        )

    @claim("X-16", "Pre-LN: they are nearly equal in all layers", paper="figure 3 a, b")
    def nearly_equal(self, results: ResultTable) -> Verdict:
        return all_of(
            below(f"{place}: largest ÷ least", results.largest_to_least("layer", "gradient", **labels), 3.0)
            for place, labels in _places("pre-ln")
        )

    @claim("X-17", "After the warm-up the gradients of Post-LN are small", paper="figure 3 a, b")
    def small_after_warmup(self, results: ResultTable) -> Verdict:
        outer = results.where(TRAINED_GRADIENT, matrix="outer", stack="decoder")
        start, after = (outer.reduce(max, "layer", TRAINED_GRADIENT, stage=stage) for stage in (START, AFTER_WARMUP))
        return below("largest G(W²) after ÷ before", after / start, 0.5)

    @claim("S-01", "A layer norm puts every vector on the sphere of radius √d", paper="1")
    def on_the_sphere(self, results: ResultTable) -> Verdict:
        return within("‖LN(v)‖² / d", results.sample("squared norm after the norm"), 1 - 1e-4, 1 + 1e-4)

    @claim(
        "S-02",
        "Attention at most doubles the squared norm before its norm",
        paper="between d and 2d",
        remark="In deep stacks the bound is reached: the states of all positions become alike.",
    )
    def attention_doubles(self, results: ResultTable) -> Verdict:
        sizes = results.along("layer", "squared norm before the norm", kind="attention")
        return all_of(within(f"layer {layer}: E‖x + f‖² / d", size, 1.0, 2.0) for layer, size in sizes.items())

    @claim("S-03", "The feed-forward branch has half of its input's squared norm", paper="1/2")
    def branch_halves(self, results: ResultTable) -> Verdict:
        return within("E‖f‖² / ‖input‖²", results.sample("squared norm of the branch"), 0.47, 0.53)

    @claim("S-04", "Every feed-forward norm shrinks the gradient by √(2/3) in Post-LN", paper="√(2/3) = 0.816")
    def norms_shrink(self, results: ResultTable) -> Verdict:
        return within("√E[d / ‖x + f‖²]", results.sample("shrinkage at the norm"), 0.786, 0.846)

    @claim(
        "S-05",
        "Gradients therefore fall geometrically towards the input",
        paper="slope ½ ln 1.5 = 0.203",
        remark="The derivation counts the norms and leaves out the growth through I + W.",
    )
    def fall_geometrically(self, results: ResultTable) -> Verdict:
        return above("slope of ln G(W²)", results.slope("layer", "theory gradient", log_y=True), 0.1)

    @claim("S-06", "Pre-LN: Jacobians of the norms shrink with depth", paper="j^-1/2")
    def jacobians_shrink(self, results: ResultTable) -> Verdict:
        slope = results.slope("layer", "norm Jacobian", log_x=True, log_y=True)
        return within("power of j", slope, -0.7, -0.3)

    @claim("S-07", "χ² tail: squared norms of Gaussian vectors are bounded", paper="exp(−n ε² / 8)")
    def tail(self, results: ResultTable) -> Verdict:
        return all_of(
            below(
                f"n = {size}, ε = {bound}",
                results.sample("tail probability", size=size, bound=bound),
                math.exp(-size * bound**2 / 8),
            )
            for size in TAIL_SIZES
            for bound in TAIL_BOUNDS
        )

    @claim("S-08", "The largest squared ReLU unit stays below 2 ln(100 d)", paper="with probability 0.99")
    def largest_unit(self, results: ResultTable) -> Verdict:
        return above("share of draws", results.sample("share below 2 ln(100 d)"), 0.99)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        by_layer = [
            Panel(f"{letter}: {name}, {stack}", tuple(_stages(results, stack=stack, matrix=matrix)))
            for letter, matrix, name in (("a", "inner", "W¹"), ("b", "outer", "W²"))
            for stack in STACKS
        ]
        by_depth = [
            scheme_panel(f"{letter}: {scheme}", results, "depth", "last gradient", [scheme])
            for letter, scheme in (("c", "pre-ln"), ("d", "post-ln"))
        ]
        return [
            Exhibit(
                "Figure 3 a, b",
                "Gradient norms of the two feed-forward matrices by layer of the 6-6 Transformer, encoder and decoder "
                "apart. Bands: 95 % intervals over seeds. The trained model is narrower.",
                by_layer,
                Axes(x="layer", y="gradient norm"),
            ),
            Exhibit(
                "Figure 3 c, d",
                "Gradient norm of W² in the last decoder layer against the number of layers of each stack.",
                by_depth,
                Axes(x="layers", y="gradient norm"),
            ),
        ]


def _by_layer(found: NormsByLayer, seed: int, scheme: str, stage: str = START) -> Iterator[ResultRow]:
    for (stack, matrix), norms in found.items():
        for layer, norm in norms.items() if matrix in MATRICES else ():
            place = {"scheme": scheme, "stage": stage, "stack": stack, "matrix": matrix, "layer": layer}
            yield row("gradient", norm, seed, **place)


def _places(scheme: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The feed-forward matrices of both stacks at initialisation, with their names."""
    for stack in STACKS:
        for matrix in MATRICES:
            yield f"{stack} {matrix}", {"scheme": scheme, "stage": START, "stack": stack, "matrix": matrix}


def _stages(results: ResultTable, **labels: Label) -> Iterator[Curve]:
    """A curve for each scheme at initialisation, and for post-LN after the warm-up where it was trained."""
    stages = (
        ("pre-ln", START, "gradient"),
        ("post-ln", START, "gradient"),
        ("post-ln", AFTER_WARMUP, TRAINED_GRADIENT),
    )
    for scheme, stage, quantity in stages:
        if results.where(quantity, scheme=scheme, stage=stage, **labels):
            series = results.curve("layer", quantity, scheme=scheme, stage=stage, **labels)
            style = scheme_style(scheme)
            shown = style if stage == START else LineStyle(style.colour, ":", "s")
            yield Curve(f"{scheme} ({stage})", series, shown)
