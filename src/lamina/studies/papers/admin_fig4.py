"""How far the encoder's output moves when its weights move, against depth.

Liu et al. 2020, figure 4, Theorem 2 and its corollaries: linear in the number of sub-layers in post-LN, logarithmic in
pre-LN and Admin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import log
from statistics import fmean

import torch
from torch import nn

from lamina.diagnosis.measurement import Axes
from lamina.diagnosis.measures.layer_dependency import shares
from lamina.diagnosis.measures.output_change import WeightChange, change, first_matrices, first_output, random_signs
from lamina.diagnosis.recording.own import recording
from lamina.diagnosis.recording.passes import Pass
from lamina.runs.run import Run
from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.initial_models import EXTENT, SUBSTITUTION, initial_subject
from lamina.studies.papers.scheme_panels import scheme_panel
from lamina.studies.papers.trained_models import SUBSTITUTIONS, of_trained_models, translation_grid
from lamina.studies.papers.trained_stages import AFTER, BEFORE, stages_of
from lamina.studies.result_table import Missing, ResultRow, ResultTable, row
from lamina.studies.samples import Sample, fit_line
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

SCHEMES = ("post-ln", "pre-ln", "admin")
DEPTHS = (3, 6, 12, 18, 36, 60, 100)
BATCH = replace(EXTENT, batches=1, tokens=64)
DRAWS = 8
"""The number of random moves whose changes are averaged: a single one varies much in deep post-LN."""
ADAM_STEP = 1e-6
"""The size of the optimiser's step per weight; larger steps saturate."""
RELATIVE_MOVE = 1e-3
"""The move of a weight, relative to the root mean square of its matrix, that is compared before and after training."""
DEEP = 36
"""The number of sub-layers from which on the optimiser's step is judged: 18 layers."""


class AdminFig4(Study):
    paper = "admin"
    title = "Change of the encoder's output when its weights change"
    substitutions = (SUBSTITUTION, *of_trained_models(*SUBSTITUTIONS[::2], "RAdam: Adam"))

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, ("6-6",))

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        depths = context.choose(micro=(2, 3, 18), otherwise=DEPTHS)
        for scheme in SCHEMES:
            for at, depth in enumerate(depths):
                context.progress(f"{scheme} by depth", at, len(depths))
                subject = initial_subject(context, scheme, (depth, 1), BATCH)
                for seed in range(1, context.choose(micro=3, otherwise=5) + 1):
                    found = output_changes(subject.build(seed), subject.passes[0], seed)
                    for quantity, value in found.items():
                        yield row(quantity, value, seed, scheme=scheme, sublayers=2 * depth)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        """The change of the encoder's output when every weight moves by the same share of its matrix's size."""
        for stage in stages_of(run, batches=1, tokens=BATCH.tokens):
            output, weights = partial(first_output, stage.passes[0]), first_matrices(stage.model)
            changes = [change(stage.model, output, weights, relative_signs(draw)) for draw in range(DRAWS)]
            yield row("change by a relative move", fmean(changes), stage=stage.name)

    @claim("A-21", "The output change is C · Σβ²_ii (Theorem 2)", paper="formula")
    def follows_shares(self, results: ResultTable) -> Verdict:
        return above("R² of one line for all schemes and depths", _r_squared_of_all(results), 0.8)

    @claim(
        "A-22",
        "Post-LN: the change is linear in the number of sub-layers (Corollary 2)",
        paper="R² = 0.99",
        remark="At width 128 it grows faster than that beyond 120 sub-layers: gradients grow towards the input (A-06), "
        "so that changes of low sub-layers are amplified on their way up.",
    )
    def linear(self, results: ResultTable) -> Verdict:
        linear, logarithmic = _fits(results, "post-ln")
        return all_of((above("R² of n", linear, 0.85), above("R² of n against R² of ln n", linear, logarithmic)))

    @claim("A-23", "Pre-LN: the change is logarithmic (Corollary 1)", paper="R² = 0.99")
    def logarithmic(self, results: ResultTable) -> Verdict:
        linear, logarithmic = _fits(results, "pre-ln")
        return all_of(
            (above("R² of ln n", logarithmic, 0.85), above("R² of ln n against R² of n", logarithmic, linear))
        )

    @claim("A-24", "Admin grows like Pre-LN", paper="figure 4")
    def like_pre_ln(self, results: ResultTable) -> Verdict:
        admin, pre = (results.along("sublayers", "noise", scheme=scheme) for scheme in ("admin", "pre-ln"))
        return all_of(within(f"n = {n}: Admin ÷ Pre-LN", admin[n] / pre[n], 0.5, 2.0) for n in admin)

    @claim("A-25", "For a step of the optimiser the gap is far larger", paper="orders of magnitude; R² = 0.75")
    def larger_gap(self, results: ResultTable) -> Verdict:
        deep = results.where("Adam").between("sublayers", low=DEEP)
        post, pre = (deep.along("sublayers", "Adam", scheme=scheme) for scheme in ("post-ln", "pre-ln"))
        return all_of(above(f"n = {n}: ln(Post-LN ÷ Pre-LN)", (post[n] / pre[n]).map(log), log(5.0)) for n in post)

    @claim("A-26", "The constant C falls as training goes on", paper="said, no number")
    def constant_falls(self, results: ResultTable) -> Verdict:
        moved = results.where("change by a relative move")
        return all_of(
            below(f"{scheme}: change {AFTER} ÷ {BEFORE}", after / before, 1.0)
            for scheme in SCHEMES
            for before, after in [
                [moved.sample("change by a relative move", scheme=scheme, stage=stage) for stage in (BEFORE, AFTER)]
            ]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        fits = {scheme: [each.interval().mean for each in _fits(results, scheme)] for scheme in SCHEMES}
        quality = "; ".join(f"{scheme}: R² of n {n:.2f}, of ln n {ln:.2f}" for scheme, (n, ln) in fits.items())
        noise = f"Weights move by ±1e-4 of random sign. {quality}."
        axes = Axes(x="sub-layers in the encoder", y="|F(x₀, W) − F(x₀, W*)|²")
        panel = partial(scheme_panel, results=results, name="sublayers")
        return [
            Exhibit("Figure 4, left", noise, [panel("random perturbations", quantity="noise", schemes=SCHEMES)], axes),
            Exhibit(
                "Figure 4, middle",
                "The same, without Post-LN, against the logarithm of the depth.",
                [panel("random perturbations", quantity="noise", schemes=SCHEMES[1:])],
                axes.model_copy(update={"log_x": True}),
            ),
            Exhibit(
                "Figure 4, right",
                f"Weights move by one step of Adam, {ADAM_STEP:g} per weight.",
                [panel("gradient updates", quantity="Adam", schemes=SCHEMES)],
                axes.model_copy(update={"log_y": True}),
            ),
            _before_and_after(results),
        ]


def _before_and_after(results: ResultTable) -> Exhibit:
    columns = {stage: ("change by a relative move", {"stage": stage}) for stage in (BEFORE, AFTER)}
    rows = {scheme: {"scheme": scheme} for scheme in SCHEMES}
    table = score_table(results, "Change of the encoder's output, 6-6 layers", rows, columns, "scheme")
    caption = f"Weights move by {RELATIVE_MOVE:g} of the size of their matrix. The paper has no figure of it."
    return Exhibit("The constant C", caption, tables=[table])


def output_changes(model: nn.Module, run: Pass, seed: int) -> dict[str, float]:
    """The change for both kinds of moves, and Σβ²_ii of the encoder."""
    weights, output = first_matrices(model), partial(first_output, run)
    with recording(model) as found, torch.no_grad():
        run(model)
    return {
        "noise": fmean(change(model, output, weights, random_signs(DRAWS * seed + draw)) for draw in range(DRAWS)),
        "Adam": change(model, output, weights, adam_step(run)),
        "Σβ²": sum(line[-1] ** 2 for line in shares(found.stacks[0])),
    }


def relative_signs(seed: int) -> WeightChange:
    """Moves every weight up or down by a share of the root mean square of its matrix."""

    def move(model: nn.Module, weights: Sequence[nn.Parameter]) -> None:
        for number, weight in enumerate(weights):
            size = RELATIVE_MOVE * weight.square().mean().sqrt().item()
            random_signs(seed * len(weights) + number, size)(model, [weight])

    return move


def adam_step(run: Pass, learning_rate: float = ADAM_STEP) -> WeightChange:
    """Moves the weights by the first step of Adam."""

    def move(model: nn.Module, weights: Sequence[nn.Parameter]) -> None:
        with torch.enable_grad():
            gradients = torch.autograd.grad(run(model), weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        torch.optim.Adam(weights, lr=learning_rate).step()

    return move


def _fits(results: ResultTable, scheme: str) -> tuple[Sample, Sample]:
    """R² of the lines in n and in ln n."""
    linear, logarithmic = (results.r_squared("sublayers", "noise", log_x=log, scheme=scheme) for log in (False, True))
    return linear, logarithmic


def _r_squared_of_all(results: ResultTable) -> Sample:
    """R² of the line y ~ Σβ²_ii through all schemes and depths, seed by seed."""
    sums, changes = results.where("Σβ²"), results.where("noise")
    if not sums or not changes:
        raise Missing("the output change was not measured")
    found = {}
    for seed in {each.seed for each in sums}:
        pairs = [
            (each.value, other.value)
            for each in sums
            for other in changes
            if each.seed == other.seed == seed and each.labels == other.labels
        ]
        found[seed] = fit_line([float(x or 0) for x, _ in pairs], [float(y or 0) for _, y in pairs])[1]
    return Sample(found)
