"""What the residual schemes cost: time of a training step, memory and parameters, relative to post-LN.

Takase et al. 2022, section 7: B2T needs no additional computation, DLCL and Admin do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

import torch
from torch import nn

from lamina.diagnosis.recording.passes import Pass
from lamina.formatting import short
from lamina.report.tables import Table
from lamina.runs.plan import SavedTensors
from lamina.studies.papers.initial_models import SUBSTITUTION, initial_subject
from lamina.studies.result_table import Label, ResultRow, ResultTable, row
from lamina.studies.samples import Sample
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

SCHEMES = ("post-ln", "pre-ln", "b2t", "dlcl", "t-fixup", "deep-norm", "admin")
DEPTHS = (6, 18)
SAMPLES, ROUNDS = 5, 3
"""A sample is the median of so many steps of each scheme, which take turns."""
TRAINED_BYTES = 16
"""Of a weight in fp32: its value, its gradient and Adam's two moments."""


class B2TCost(Study):
    paper = "b2t"
    title = "Time, memory and parameters relative to post-LN"
    substitutions = (SUBSTITUTION, "GPUs: one thread of a CPU, steps of 512 tokens")

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        for depth in context.choose(micro=(2, 3), otherwise=DEPTHS):
            context.progress("costs by depth", depth, DEPTHS[-1])
            subjects = {scheme: initial_subject(context, scheme, (depth, depth)) for scheme in SCHEMES}
            models = {scheme: subject.build(1) for scheme, subject in subjects.items()}
            run = subjects["post-ln"].passes[0]
            for scheme, model in models.items():
                labels: dict[str, Any] = {"scheme": scheme, "depth": depth}
                number = count(model)
                yield row("parameters", number, **labels)
                yield row("extra parameters", number - count(models["post-ln"]), **labels)
                yield row("memory", TRAINED_BYTES * number + saved_bytes(model, run), **labels)
            steps = {scheme: TrainingStep(model, run) for scheme, model in models.items()}
            for sample in range(1, context.choose(micro=3, otherwise=SAMPLES) + 1):
                for scheme, seconds in interleaved_medians(steps, context.choose(micro=1, otherwise=ROUNDS)).items():
                    yield row("seconds", seconds, sample, scheme=scheme, depth=depth)

    @claim("B-28", "B2T costs nothing extra; DLCL and Admin do", paper="said")
    def costs_nothing(self, results: ResultTable) -> Verdict:
        return all_of(
            part for depth in results.along("depth", "memory", scheme="b2t") for part in _parts(results, depth)
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        caption = (
            "Step time: forward, backward and Adam's step, medians of interleaved steps, with 95 % intervals. Memory: "
            "weights, gradients, Adam's moments and the tensors kept for the backward pass. The paper has no table."
        )
        tables = [_table(results, int(depth)) for depth in results.along("depth", "memory", scheme="post-ln")]
        return [Exhibit("Cost relative to post-LN", caption, tables=tables)]


def _parts(results: ResultTable, depth: Label) -> Iterator[Verdict]:
    name = f"{depth}-{depth}"
    yield below(f"{name}: time of B2T", _relative(results, "seconds", "b2t", depth), 1.03)
    extra = {scheme: results.sample("extra parameters", scheme=scheme, depth=depth) for scheme in SCHEMES}
    yield within(f"{name}: extra parameters of B2T", extra["b2t"], 0, 0)
    for scheme in ("dlcl", "admin"):
        yield above(f"{name}: extra parameters of {scheme}", extra[scheme], 0)


def _relative(results: ResultTable, quantity: str, scheme: str, depth: Label) -> Sample:
    own, post = (results.sample(quantity, scheme=each, depth=depth) for each in (scheme, "post-ln"))
    return own / post


def _table(results: ResultTable, depth: int) -> Table:
    rows = tuple(
        (
            scheme,
            str(_relative(results, "seconds", scheme, depth).interval()),
            short(_relative(results, "memory", scheme, depth).mean, 4),
            f"{results.sample('extra parameters', scheme=scheme, depth=depth).mean:+,.0f}",
        )
        for scheme in SCHEMES
    )
    return Table(f"{depth}-{depth} layers", ("method", "step time", "memory", "extra parameters"), rows)


def count(model: nn.Module) -> int:
    """The number of parameters."""
    return sum(each.numel() for each in model.parameters())


def saved_bytes(model: nn.Module, run: Pass) -> int:
    """The bytes of the tensors that autograd keeps for the backward pass."""
    with SavedTensors(model) as saved:
        run(model)
    return saved.bytes


class TrainingStep:
    """One step of Adam on one batch, with a learning rate of zero: every step does the same work."""

    def __init__(self, model: nn.Module, run: Pass) -> None:
        self.model, self.run = model, run
        self.optimiser = torch.optim.Adam(model.parameters(), lr=0.0)

    def seconds(self) -> float:
        began = time.perf_counter()
        self.optimiser.zero_grad()
        torch.autograd.backward(self.run(self.model))
        self.optimiser.step()
        return time.perf_counter() - began


def interleaved_medians(steps: Mapping[str, TrainingStep], rounds: int) -> dict[str, float]:
    """The median time of each step; all take turns, each round in another order, after one that does not count."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for number in range(rounds + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            seconds = steps[name].seconds()
            if number:
                times[name].append(seconds)
    return {name: median(found) for name, found in times.items()}
