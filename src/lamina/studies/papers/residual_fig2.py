"""Gradients and changes of the hidden state by block, in post-LN, pre-LN and ResiDual, and the theorems behind them.

Xie et al. 2023, figure 2, Theorems 3.1, 3.3 and 3.6 with their corollaries, equations 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from lamina.runs.run import Run
from lamina.studies.papers.initial_models import SUBSTITUTION
from lamina.studies.papers.residual_blocks import (
    DEVIATIONS,
    measure_gaussian_blocks,
    measure_linear_blocks,
    measure_products,
    measure_sums,
)
from lamina.studies.papers.residual_decoders import measure_models
from lamina.studies.papers.residual_panels import STACKS, TRAINED_CHANGE, figure_2, measure_trained_changes
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run, of_trained_models
from lamina.studies.result_table import ResultRow, ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

FAR = 9
"""The distance N − k from which on the bound of Theorem 3.1 is below 1."""


class ResidualFig2(Study):
    paper = "residual"
    title = "Gradients and changes of the hidden state by block"
    substitutions = (SUBSTITUTION, *of_trained_models(*SUBSTITUTIONS[:2]))

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(scale, "iwslt", scheme=scheme, depth="12-12", rate=5e-4, labels={"model": "trained"})
            for scheme in ("pre-ln", "resi-dual")
        ]

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        seeds = range(1, context.choose(micro=3, otherwise=5) + 1)
        for at, seed in enumerate(seeds):
            context.progress("blocks of the proofs, then models", at, len(seeds))
            yield from measure_linear_blocks(context, seed)
            yield from measure_sums(context, seed)
            yield from measure_products(context, seed)
            yield from measure_gaussian_blocks(context, seed)
            yield from measure_models(context, seed)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        yield from measure_trained_changes(run)

    @claim("R-01", "The input of a Post-LN norm has squared norm 2d, that of Pre-LN grows as k d", paper="2; k")
    def norms(self, results: ResultTable) -> Verdict:
        sums = results.where("squared norm of the sum")
        post = sums.along("block", "squared norm of the sum", scheme="post-ln")
        slope = sums.slope("block", "squared norm of the sum", scheme="pre-ln")
        parts = [within(f"Post-LN, block {block}: E‖x + f‖² ÷ d", size, 1.9, 2.1) for block, size in post.items()]
        return all_of([*parts, within("Pre-LN: slope of E‖x + f‖² ÷ d", slope, 0.9, 1.1)])

    @claim(
        "R-02",
        "Post-LN gradients vanish with the distance from the output (Theorem 3.1)",
        paper="(1/2)^((N−k)/2) e^√(N−k)",
        remark="The bound is below 1 only from N − k = 9 on. A-06 says that encoders do not vanish: the growth through "
        "I + W, which R-03 underestimates, cancels the norms; decoders vanish at cross-attention.",
    )
    def vanish(self, results: ResultTable) -> Verdict:
        far = results.between("distance", low=FAR)
        single = far.where("gradient of a block", scheme="post-ln", blocks=_most_blocks(results))
        parts = {"single stack of the proof": (single, "gradient of a block")}
        parts |= {stack: (far.where("gradient", scheme="post-ln", stack=stack), "gradient") for stack in STACKS}
        return all_of(
            below(f"{name}: slope of ln G", rows.slope("distance", quantity, log_y=True), -0.1)
            for name, (rows, quantity) in parts.items()
        )

    @claim(
        "R-03",
        "A product of m matrices I + W has a norm of about e^√m",
        paper="e^√m",
        remark="For W ~ N(0, 1/d) the norm of the product grows as 2^(m/2), which is linear in m.",
    )
    def product_norm(self, results: ResultTable) -> Verdict:
        root, linear = (results.r_squared(name, "ln of the norm of the product") for name in ("root", "matrices"))
        return above("R² of √m against R² of m", root, linear)

    @claim(
        "R-04",
        "Pre-LN gradients fall with N^-1/2 and hardly depend on k",
        paper="√(log(N−k)/N), or log(N−k)/√N",
        remark="I + W/√l stretches a gradient by √(1 + 1/l) on average, so that the product over the blocks above k "
        "grows as √(N/k), not as a logarithm.",
    )
    def pre_ln_gradients(self, results: ResultTable) -> Verdict:
        pre = results.where("gradient of a block", scheme="pre-ln")
        last = ResultTable(each for each in pre if each.labels["distance"] == 0)
        power = last.slope("blocks", "gradient of a block", log_x=True, log_y=True)
        return all_of(
            [
                within("power of N, last block", power, -0.75, -0.25),
                *(
                    below(f"N = {blocks}: largest ÷ least over k", ratio, 3.0)
                    for blocks in _numbers_of_blocks(results)
                    for ratio in [pre.largest_to_least("block", "gradient of a block", blocks=blocks)]
                ),
            ]
        )

    @claim("R-05", "The gradient is the sum of a post part and a dual part", paper="equation 4, exact")
    def sum_of_parts(self, results: ResultTable) -> Verdict:
        return below("largest difference", results.sample("error of the sum of the parts"), 1e-5)

    @claim("R-06", "The dual part rules at the bottom, the post part at the top", paper="equation 5, said")
    def dual_below(self, results: ResultTable) -> Verdict:
        post, dual = (results.along("block", "part of the gradient", stream=name) for name in ("x", "dual"))
        last = max(post)
        return all_of(
            (
                above("k = 1: dual part ÷ post part", dual[1] / post[1], 1.0),
                above(f"k = {last}: post part ÷ dual part", post[last] / dual[last], 1.0),
            )
        )

    @claim(
        "R-07",
        "ResiDual has a floor under its gradients",
        paper="figure 2 a",
        remark="The second number compares blocks of different kinds: the least gradient is that of the first "
        "self-attention, the largest that of the last cross-attention. Figure 2 a compares whole layers.",
    )
    def floor(self, results: ResultTable) -> Verdict:
        decoder = results.where("gradient", stack="decoder")
        resi, post = (decoder.reduce(min, "block", "gradient", scheme=scheme) for scheme in ("resi-dual", "post-ln"))
        largest = decoder.reduce(max, "block", "gradient", scheme="resi-dual")
        return all_of(
            (
                above("least gradient: ResiDual ÷ Post-LN", resi / post, 5.0),
                above("ResiDual: least ÷ largest", resi / largest, 0.1),
            )
        )

    @claim(
        "R-08",
        "Nothing explodes; the gradient of the last block does not depend on N",
        paper="said",
        remark="The loss is linear in the output: the proof takes ∂L/∂y for granted. With a squared error that "
        "gradient itself grows with N in ResiDual.",
    )
    def last_block(self, results: ResultTable) -> Verdict:
        last = results.where("gradient of a block", distance=0)
        return all_of(
            below(
                f"{scheme}: largest ÷ least over N",
                last.largest_to_least("blocks", "gradient of a block", scheme=scheme),
                1.5,
            )
            for scheme in ("post-ln", "resi-dual")
        )

    @claim("R-09", "The block inputs of ResiDual are those of Post-LN", paper="exact")
    def same_inputs(self, results: ResultTable) -> Verdict:
        return within("encoder: largest difference", results.sample("difference of the streams"), 0.0, 0.0)

    @claim(
        "R-10",
        "Pre-LN: hidden states differ by N(0, ω_k²) (Theorem 3.3)",
        paper="ω_k² = 2 ÷ (√k (√(k−1) + √k))",
        remark="Valid from k = 2 and without an embedding; with one, ω_k² = 2 − 2√(V_k ÷ V_{k+1}).",
    )
    def pre_ln_changes(self, results: ResultTable) -> Verdict:
        return all_of(
            within(f"embedding {embedding}, k = {block}: std ÷ ω", ratio, 0.98, 1.02)
            for embedding in ("none", "Gaussian")
            for block, ratio in results.along("block", "std of the change ÷ ω", embedding=embedding).items()
        )

    @claim(
        "R-11",
        "Pre-LN: the change fades as k^-1/2 (Corollary 3.4)",
        paper="−1/2",
        remark="Judged by the feed-forward blocks.",
    )
    def fades(self, results: ResultTable) -> Verdict:
        late = results.where("change", scheme="pre-ln", kind="feed-forward").between("block", low=4)
        return all_of(
            within(
                f"{stack}: power of k", late.slope("block", "change", log_x=True, log_y=True, stack=stack), -0.7, -0.3
            )
            for stack in STACKS
        )

    @claim("R-12", "One more Pre-LN block changes the output by N^-1/2 (Corollary 3.5)", paper="−1/2")
    def one_more_block(self, results: ResultTable) -> Verdict:
        return within("power of N", results.slope("block", "change of the output", log_x=True, log_y=True), -0.7, -0.3)

    @claim(
        "R-13",
        "Post-LN and ResiDual: the change is the same at every depth (Theorem 3.6)",
        paper="√(2/π) ω, 0.611 for σ = 1",
    )
    def same_change(self, results: ResultTable) -> Verdict:
        return all_of(
            part
            for scheme in ("post-ln", "resi-dual")
            for deviation in DEVIATIONS
            for part in _same_change(results, scheme, deviation)
        )

    @claim(
        "R-14",
        "One more ResiDual block always moves the output (Corollary 3.7)",
        paper="at least √(2/π) ω",
        remark="Printed of Pre-LN, but meant and proved for ResiDual.",
    )
    def always_moves(self, results: ResultTable) -> Verdict:
        return all_of(
            above(f"σ = {deviation}, N = {block}: change ÷ bound", ratio, 1.0)
            for deviation in DEVIATIONS
            for block, ratio in results.along("block", "change of the output ÷ √(2/π) ω", deviation=deviation).items()
        )

    @claim("R-15", "On a trained model too: pre-LN fades, ResiDual does not", paper="figure 2 b")
    def fades_when_trained(self, results: ResultTable) -> Verdict:
        """The change in the last third of the blocks ÷ that in the first third."""
        ratios = {
            (scheme, stack): results.reduce(_last_to_first_third, "block", TRAINED_CHANGE, scheme=scheme, stack=stack)
            for scheme in ("pre-ln", "resi-dual")
            for stack in STACKS
        }
        return all_of(
            part
            for stack in STACKS
            for part in (
                below(f"pre-LN, {stack}: last third ÷ first", ratios["pre-ln", stack], 0.6),
                above(f"ResiDual, {stack}: last third ÷ first", ratios["resi-dual", stack], 0.8, better="higher"),
            )
        )

    @claim("R-16", "Pre-LN: the share of a branch falls with its index", paper="said")
    def share_falls(self, results: ResultTable) -> Verdict:
        parts = []
        for stack in STACKS:
            pre, post = (
                results.slope("block", "share of the branch", scheme=scheme, stack=stack, kind="feed-forward")
                for scheme in ("pre-ln", "post-ln")
            )
            parts.append(below(f"{stack}: slope of the share, Pre-LN", pre, 0.0))
            parts.append(below(f"{stack}: |slope|, Post-LN against Pre-LN", post.map(abs), pre.map(abs)))
        return all_of(parts)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        return figure_2(results)


def _last_to_first_third(values: Sequence[float]) -> float:
    third = max(1, len(values) // 3)
    return fmean(values[-third:]) / fmean(values[:third])


def _numbers_of_blocks(results: ResultTable) -> list[int]:
    return sorted({int(each.labels["blocks"]) for each in results.where("gradient of a block")})


def _most_blocks(results: ResultTable) -> int:
    return max(_numbers_of_blocks(results), default=0)


def _same_change(results: ResultTable, scheme: str, deviation: float) -> Iterator[Verdict]:
    rows, name = results.where("change ÷ √(2/π) ω", scheme=scheme, deviation=deviation), f"{scheme}, σ = {deviation}"
    for block, ratio in rows.along("block", "change ÷ √(2/π) ω").items():
        yield within(f"{name}, k = {block}: change ÷ formula", ratio, 0.97, 1.03)
    slope = rows.slope("block", "change ÷ √(2/π) ω", log_x=True, log_y=True)
    yield within(f"{name}: power of k", slope, -0.05, 0.05)
