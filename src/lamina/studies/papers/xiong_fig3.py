"""Gradients at initialisation by layer and by depth, and the lemmas behind them.

Xiong et al. 2020, figure 3, Lemmas 1–3, Theorem 1 and the supplement. At initialisation the gradient of the last layers
is large in post-LN at any depth, and falls as 1/√L in pre-LN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lamina.diagnosis.measurement import Axes
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import LineStyle, scheme_style
from lamina.studies.papers.initial_models import expected_gradients, initial_subject
from lamina.studies.papers.theory import gaussian_inputs, run_theory, squared_norm, theory_stack
from lamina.studies.result_table import Missing, ResultRow, ResultTable
from lamina.studies.samples import Sample
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

SCHEMES = ("post-ln", "pre-ln")
DEPTHS = (6, 8, 10, 12, 14)
WIDTHS = (64, 128, 256, 512, 1024)
STACKS = ("encoder", "decoder")
MATRICES = ("inner", "outer")
TAIL_SIZES, TAIL_BOUNDS = (64, 128, 256, 512, 1024), (0.05, 0.1, 0.2, 0.5)


class XiongFig3(Study):
    paper = "xiong"
    title = "Gradients at initialisation, by layer and by depth"
    substitutions = ("IWSLT De-En: the embedded language pair, width 128",)

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        seeds = range(1, context.choose(micro=3, otherwise=10) + 1)
        for at, seed in enumerate(seeds):
            context.progress("lemmas", at, len(seeds))
            yield from _lemmas(context, seed)
            yield from _theory_stacks(context, seed)
            yield from _widths(context, seed)
        for scheme in SCHEMES:
            for at, depth in enumerate(context.choose(micro=(2, 3), otherwise=DEPTHS)):
                context.progress(f"{scheme}, gradients by depth", at, len(DEPTHS))
                subject = initial_subject(context, scheme, (depth, depth))
                for seed in seeds:
                    for (stack, matrix), norms in expected_gradients(subject, seed).items():
                        place = {"scheme": scheme, "depth": depth, "stack": stack, "matrix": matrix}
                        for layer, norm in norms.items() if matrix in MATRICES else ():
                            labels = {**place, "layer": layer}
                            yield ResultRow(quantity="gradient", value=norm, seed=seed, labels=labels)

    @claim("X-06", "ReLU halves the expected squared norm of a Gaussian vector (Lemma 1)", paper="1/2")
    def relu_halves(self, results: ResultTable) -> Verdict:
        return within("‖relu(X)‖² / (σ² d)", results.sample("squared norm after ReLU"), 0.49, 0.51)

    @claim("X-07", "Post-LN: inputs of the feed-forward norms have one size (Lemma 2)", paper="3/2")
    def same_size(self, results: ResultTable) -> Verdict:
        sizes = results.along("layer", "squared norm before the norm", scheme="post-ln", kind="feed-forward")
        return all_of(within(f"layer {layer}: E‖x + f‖² / d", size, 1.45, 1.55) for layer, size in sizes.items())

    @claim("X-08", "Pre-LN: the stream's squared norm grows linearly (Lemma 2)", paper="1 + l/2 ≤ r ≤ 1 + 3l/2")
    def grows_linearly(self, results: ResultTable) -> Verdict:
        sizes = results.along("layer", "squared norm of the stream", scheme="pre-ln")
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
        last = _last_gradients(results, "post-ln")
        return below("largest ÷ least over depths", last.reduce(_ratio, "depth", "last gradient"), 1.3)

    @claim("X-12", "Pre-LN: it falls as one over the root of depth (Theorem 1)", paper="L^-1/2")
    def falls_with_depth(self, results: ResultTable) -> Verdict:
        last = _last_gradients(results, "pre-ln")
        return within("power of L", last.slope("depth", "last gradient", log_x=True, log_y=True), -0.75, -0.25)

    @claim("X-13", "Gradients of the last layer are larger in Post-LN", paper="figure 3 c, d")
    def larger_in_post_ln(self, results: ResultTable) -> Verdict:
        post, pre = (_last_gradients(results, scheme).along("depth", "last gradient") for scheme in SCHEMES)
        return all_of(above(f"{depth} layers", post[depth], pre[depth]) for depth in post)

    @claim("X-14", "The bound d √ln d is not exceeded as width grows (Theorem 1)", paper="O(d √ln d)")
    def bounded_in_width(self, results: ResultTable) -> Verdict:
        shares = list(results.along("width", "last gradient ÷ d √ln d").items())
        return all_of(
            below(f"width {after} against {before}", larger - smaller, 0.0)
            for (before, smaller), (after, larger) in zip(shares, shares[1:], strict=False)
        )

    @claim("X-15", "Post-LN: expected gradients grow with the layer index", paper="figure 3 a")
    def grow_with_layer(self, results: ResultTable) -> Verdict:
        return all_of(
            above(f"{stack} {matrix}: slope of ln G", _slope(results, "post-ln", stack, matrix), 0.05)
            for stack in STACKS
            for matrix in MATRICES
        )

    @claim("X-16", "Pre-LN: they are nearly equal in all layers", paper="figure 3 b")
    def nearly_equal(self, results: ResultTable) -> Verdict:
        return all_of(
            below(
                f"{stack} {matrix}: largest ÷ least",
                results.reduce(
                    _ratio,
                    "layer",
                    "gradient",
                    scheme="pre-ln",
                    depth=_least_depth(results),
                    stack=stack,
                    matrix=matrix,
                ),
                3.0,
            )
            for stack in STACKS
            for matrix in MATRICES
        )

    @claim("S-01", "A layer norm puts every vector on the sphere of radius √d", paper="1")
    def on_the_sphere(self, results: ResultTable) -> Verdict:
        return within("‖LN(v)‖² / d", results.sample("squared norm after the norm"), 1 - 1e-4, 1 + 1e-4)

    @claim("S-02", "Attention at most doubles the squared norm before its norm", paper="between d and 2d")
    def attention_doubles(self, results: ResultTable) -> Verdict:
        sizes = results.along("layer", "squared norm before the norm", scheme="post-ln", kind="attention")
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
        return above("slope of ln G(W²)", results.slope("layer", "theory gradient", log_y=True, scheme="post-ln"), 0.1)

    @claim("S-06", "Pre-LN: Jacobians of the norms shrink with depth", paper="j^-1/2")
    def jacobians_shrink(self, results: ResultTable) -> Verdict:
        slope = results.slope("layer", "norm Jacobian", log_x=True, log_y=True, scheme="pre-ln")
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
        least = _least_depth(results)
        by_layer = [
            Panel(
                f"{stack}, {scheme}",
                tuple(
                    Curve(
                        name,
                        results.curve("layer", "gradient", scheme=scheme, depth=least, stack=stack, matrix=matrix),
                        style,
                    )
                    for (matrix, name), style in zip(
                        (("inner", "W¹"), ("outer", "W²")), _pair_of_styles(scheme), strict=True
                    )
                ),
            )
            for stack in STACKS
            for scheme in SCHEMES
        ]
        by_depth = Panel(
            "last feed-forward matrix",
            tuple(
                Curve(scheme, _last_gradients(results, scheme).curve("depth", "last gradient"), scheme_style(scheme))
                for scheme in SCHEMES
            ),
        )
        return [
            Exhibit(
                "Figure 3 a, b",
                f"Gradient norms of the feed-forward matrices by layer at initialisation, {least}-{least} layers. "
                "Bands: 95 % intervals over seeds.",
                by_layer,
                Axes(x="layer", y="gradient norm", log_y=True),
            ),
            Exhibit(
                "Figure 3 c, d",
                "Gradient norm of W² in the last decoder layer against the number of layers of each stack.",
                [by_depth],
                Axes(x="layers", y="gradient norm"),
            ),
        ]


def _lemmas(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """Values about Gaussian vectors and one layer norm."""
    dim, draws = context.choose(micro=(64, 500), otherwise=(512, 20_000))
    generator = torch.Generator().manual_seed(seed)

    def row(quantity: str, value: float, **labels: int | float) -> ResultRow:
        return ResultRow(quantity=quantity, value=value, seed=seed, labels=dict(labels))

    x = torch.randn(draws, dim, generator=generator)
    yield row("squared norm after ReLU", squared_norm(x.relu()).mean().item())
    normed = torch.nn.functional.layer_norm(3 * x[:500].double(), (dim,), eps=1e-12)
    yield row("squared norm after the norm", squared_norm(normed).mean().item())
    yield row("Jacobian norm ÷ (√d / ‖x − mean‖)", _jacobian_ratio(x[0, :64].double()))
    largest = x.relu().square().amax(-1)
    yield row("share below 2 ln(100 d)", (largest < 2 * math.log(100 * dim)).double().mean().item())
    for size in TAIL_SIZES:
        squares = torch.randn(draws, size, generator=generator).square().sum(-1)
        for bound in TAIL_BOUNDS:
            share = ((squares - size) / size >= bound).double().mean().item()
            yield row("tail probability", share, size=size, bound=bound)


def _jacobian_ratio(x: Tensor) -> float:
    """The spectral norm of the Jacobian of LN at x, divided by √d / ‖x − mean(x)‖."""
    jacobian = torch.autograd.functional.jacobian(  # type: ignore[no-untyped-call]
        lambda v: torch.nn.functional.layer_norm(v, v.shape, eps=0.0), x
    )
    bound = math.sqrt(len(x)) / (x - x.mean()).norm().item()
    return torch.linalg.matrix_norm(jacobian, 2).item() / bound


def _theory_stacks(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """Norms of streams and branches, Jacobians and gradients in the stacks of the proofs."""
    dim, layers = context.choose(micro=(32, 3), otherwise=(512, 12))
    inputs = gaussian_inputs(4, 32, dim, seed=seed)
    inputs = torch.nn.functional.layer_norm(inputs, (dim,))  # of squared norm d, as the lemmas require
    for scheme in SCHEMES:
        stack = theory_stack(scheme, layers, dim, seed=seed)
        record = run_theory(stack, inputs, backward=True)

        def row(quantity: str, value: float, scheme: str = scheme, **labels: int | str) -> ResultRow:
            return ResultRow(quantity=quantity, value=value, seed=seed, labels={"scheme": scheme, **labels})

        norms = {each.sublayer: each for each in record.norms if each.sublayer is not None}
        for number, sublayer in enumerate(record.sublayers):
            layer, is_last = sublayer.place.layer + 1, sublayer.place.last
            kind = "feed-forward" if is_last else "attention"
            before = norms[number].input.value
            if scheme == "post-ln":
                yield row("squared norm before the norm", squared_norm(before).mean().item(), layer=layer, kind=kind)
            elif is_last:
                after = sublayer.after[0].value
                yield row("squared norm of the stream", squared_norm(after).mean().item(), layer=layer)
                deviation = (before - before.mean(-1, keepdim=True)).norm(dim=-1)
                yield row("norm Jacobian", (math.sqrt(dim) / deviation).mean().item(), layer=layer)
        first = record.sublayers[1]
        if scheme == "post-ln":
            assert first.branch is not None
            share = squared_norm(first.branch.value).mean() / squared_norm(first.read.value).mean()
            yield ResultRow(quantity="squared norm of the branch", value=share.item(), seed=seed)
            shrinkage = (1 / squared_norm(norms[1].input.value)).mean().sqrt().item()
            yield ResultRow(quantity="shrinkage at the norm", value=shrinkage, seed=seed)
        last = squared_norm(record.norms[-1].input.value)
        yield row("share beyond 10 %", ((last - last.mean()) / last.mean() > 0.1).double().mean().item())
        for number, built in enumerate(stack.layers):
            gradient = built.sublayers[1].outer.grad
            assert isinstance(gradient, Tensor)
            yield row("theory gradient", gradient.norm().item(), layer=number + 1)


def _widths(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """The gradient of the last W² of a post-LN stack, divided by the bound's d √ln d."""
    for width in context.choose(micro=(16, 32), otherwise=WIDTHS):
        stack = theory_stack("post-ln", context.choose(micro=2, otherwise=6), width, seed=seed)
        run_theory(stack, gaussian_inputs(4, 16, width, seed=seed), backward=True)
        gradient = stack.layers[-1].sublayers[1].outer.grad
        assert isinstance(gradient, Tensor)
        value = gradient.norm().item() / (width * math.sqrt(math.log(width)))
        yield ResultRow(quantity="last gradient ÷ d √ln d", value=value, seed=seed, labels={"width": width})


def _last_gradients(results: ResultTable, scheme: str) -> ResultTable:
    """The gradient of W² in the last decoder layer of every depth."""
    rows = results.where("gradient", scheme=scheme, stack="decoder", matrix="outer")
    last = [row for row in rows if row.labels["layer"] == row.labels["depth"]]
    return ResultTable(row.model_copy(update={"quantity": "last gradient"}) for row in last)


def _least_depth(results: ResultTable) -> int:
    rows = results.where("gradient")
    if not rows:
        raise Missing("gradient was not measured")
    return min(int(row.labels["depth"]) for row in rows)


def _slope(results: ResultTable, scheme: str, stack: str, matrix: str) -> Sample:
    depth = _least_depth(results)
    return results.slope("layer", "gradient", log_y=True, scheme=scheme, depth=depth, stack=stack, matrix=matrix)


def _ratio(values: Sequence[float]) -> float:
    return max(values) / min(values) if min(values) else math.inf


def _pair_of_styles(scheme: str) -> tuple[LineStyle, LineStyle]:
    own = scheme_style(scheme)
    return own, LineStyle(own.colour, ":", "s")
