"""The condition number κ̂ of Adam's update for vanishing gradients, simulated.

Xie et al. 2023, Theorem 3.2 and figure 3: d = 1024, ε = 1e-6, β = (0.9, 0.98), learning rate 1e-4; at each step
g ~ N(0, σ_g² I), κ̂ is computed, then the moments are updated. Their equation 6 needs a minus before its first term, and
equation 3 a square under the sum; at g = v = 0 only the second term is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

from lamina.diagnosis.measurement import Axes
from lamina.diagnosis.measures.adam_conditioning import AdamRule
from lamina.formatting import short
from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import part_styles
from lamina.runs.run import Run
from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.matrix_norms import norms_of_steps, spread_over_kinds
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run, of_trained_models
from lamina.studies.papers.trained_stages import stages_of
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

DIM, STEPS, WARMUP = 1024, 20, 4000
DEVIATIONS = tuple(1e-8 * number for number in range(11))
SHOWN_STEPS = (1, 5, 10, 15, 20)
EPSILONS = (1e-8, 1e-3)
SPREAD = "largest ÷ least update per weight over kinds of matrices"


class ResidualFig3(Study):
    paper = "residual"
    title = "The condition number of Adam's update"
    substitutions = of_trained_models(*SUBSTITUTIONS[:2])

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale, "iwslt", scheme="pre-ln", depth="6-6", rate=5e-4, optimiser={"eps": each}, labels={"ε": each}
            )
            for each in EPSILONS
        ]

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        for seed in range(1, context.choose(micro=3, otherwise=10) + 1):
            for deviation in DEVIATIONS:
                for step, value in enumerate(condition_numbers(deviation, AdamRule(), seed), start=1):
                    yield row("κ", value, seed, deviation=deviation, step=step)
        first = next(condition_numbers(0.0, AdamRule(learning_rate=AdamRule().learning_rate / WARMUP), 1))
        yield row("κ with warm-up", first)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        _, trained = stages_of(run, batches=10, tokens=256)
        yield row(SPREAD, spread_over_kinds(norms_of_steps(trained)))

    @claim("R-17", "Adam's update is ill-conditioned where the gradient is zero (Theorem 3.2)", paper="3200")
    def ill_conditioned(self, results: ResultTable) -> Verdict:
        return within("κ̂ at step 1", results.sample("κ", deviation=0.0, step=1), 3199.0, 3201.0)

    @claim("R-18", "It still is after 20 steps", paper="above 300")
    def still_ill_conditioned(self, results: ResultTable) -> Verdict:
        last = results.along("deviation", "κ", step=STEPS)
        return all_of(
            above(f"σ_g = {short(float(deviation))}: κ̂ at step {STEPS}", value, 300.0)
            for deviation, value in last.items()
        )

    @claim("R-19", "κ̂ falls as σ_g grows", paper="figure 3, right")
    def falls(self, results: ResultTable) -> Verdict:
        return all_of(
            below(f"step {step}, σ_g {wider:.0e} against {narrower:.0e}: κ̂", lower - higher, 0.0)
            for step in SHOWN_STEPS
            for (narrower, higher), (wider, lower) in pairwise(results.along("deviation", "κ", step=step).items())
        )

    @claim("R-20", "The estimate at g = 0 is good for all small σ_g", paper="figure 3, left: lines overlap")
    def good_estimate(self, results: ResultTable) -> Verdict:
        return all_of(
            within(f"step {step}: κ̂(1e-07) ÷ κ̂(0)", widest / results.sample("κ", deviation=0.0, step=step), 0.85, 1.15)
            for step, widest in results.along("step", "κ", deviation=DEVIATIONS[-1]).items()
        )

    @claim("R-21", "A warm-up over 4000 steps cures it", paper="about 1")
    def warmup_cures(self, results: ResultTable) -> Verdict:
        return within("κ̂ at step 1", results.sample("κ with warm-up"), 0.5, 1.5)

    @claim("R-22", "A large ε makes Adam less adaptive", paper="said, no number")
    def less_adaptive(self, results: ResultTable) -> Verdict:
        """The updates of the kinds of matrices differ more."""
        small, large = (results.sample(SPREAD, ε=each) for each in EPSILONS)
        return above(f"ε = 1e-3: {SPREAD}", large, small)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        shown = DEVIATIONS[::2]
        left = [
            Curve(f"σ_g = {short(deviation)}", results.curve("step", "κ", deviation=deviation), style)
            for deviation, style in zip(shown, part_styles(shown), strict=True)
        ]
        right = [
            Curve(f"t = {step}", results.curve("deviation", "κ", step=step), style)
            for step, style in zip(SHOWN_STEPS, part_styles(SHOWN_STEPS), strict=True)
        ]
        kinds = score_table(
            results,
            "Trained pre-LN models, 6-6 layers",
            {f"ε = {each:g}": {"ε": each} for each in EPSILONS},
            {SPREAD: (SPREAD, {}), "validation loss": ("validation loss", {})},
        )
        remark = "Simulated for 1024 weights; bands: 95 % intervals over seeds."
        return [
            Exhibit("Figure 3, left", remark, [Panel("κ̂ by step", tuple(left))], Axes(x="t", y="κ̂")),
            Exhibit("Figure 3, right", remark, [Panel("κ̂ by σ_g", tuple(right))], Axes(x="σ_g", y="κ̂", log_y=True)),
            Exhibit("Adam's ε", "Updates over ten further steps; the paper has no figure of it.", tables=[kinds]),
        ]


def condition_numbers(deviation: float, rule: AdamRule, seed: int) -> Iterator[float]:
    """κ̂ = √Σ(∂u/∂g_i)² at each step."""
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.zeros(2, DIM, dtype=torch.float64)
    for step in range(1, STEPS + 1):
        gradient = deviation * torch.randn(DIM, dtype=torch.float64, generator=generator)
        first, second = rule.moments(gradient, first, second)
        yield rule.sensitivity(gradient, first, second, step).norm().item()
