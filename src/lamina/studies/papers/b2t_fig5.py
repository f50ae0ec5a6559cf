"""Cosines between the outputs of layers of trained models.

Takase et al. 2023, figure 5: in pre-LN the outputs of all layers resemble the last one, in post-LN and B2T they do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lamina.diagnosis.measurement import Axes
from lamina.diagnosis.measures.cosine_of_layers import cosines
from lamina.diagnosis.recording.own import recording
from lamina.runs.run import Run
from lamina.studies.papers.scheme_panels import scheme_panel
from lamina.studies.papers.trained_models import SUBSTITUTIONS, translation_grid
from lamina.studies.result_table import Missing, ResultRow, ResultTable, row
from lamina.studies.samples import Sample, SampleSeed
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, below

SCHEMES = ("post-ln", "pre-ln", "b2t")
STACKS = ("encoder", "decoder")
TOKENS = 1000


class B2tFig5(Study):
    paper = "b2t"
    title = "Cosines between layers of trained models"
    substitutions = SUBSTITUTIONS[::2]

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, ("6-6",))

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        """The cosine of every layer's output with the last one, as a mean over positions of a validation batch."""
        task, model = run.task, run.model
        _, inputs = next(task.every_batch(model, "valid", TOKENS))
        with recording(model) as found, torch.no_grad():
            task.losses(model, inputs)
        for stack in found.stacks:
            for layer, cosine in enumerate(cosines(stack)[:, -1].tolist(), start=1):
                yield row("cosine", cosine, stack=stack.name, layer=layer)

    @claim("B-09", "Pre-LN: outputs of low layers resemble the last one more than in post-LN", paper="figure 5")
    def pre_resembles(self, results: ResultTable) -> Verdict:
        parts = []
        for stack in STACKS:
            pre, post = (_below_last(results, scheme, stack) for scheme in ("pre-ln", "post-ln"))
            parts += [above(f"{stack}, layer 1", pre[0], post[0]), above(f"{stack}, mean", _mean(pre), _mean(post))]
        return all_of(parts)

    @claim("B-10", "B2T keeps the pattern of post-LN", paper="figure 5")
    def b2t_keeps(self, results: ResultTable) -> Verdict:
        """On average over layers B2T's cosines are nearer to those of post-LN than to those of pre-LN."""
        parts = []
        for stack in STACKS:
            post, pre, b2t = (_below_last(results, scheme, stack) for scheme in SCHEMES)
            distances = [
                _mean([(one - two).map(abs) for one, two in zip(b2t, other, strict=True)]) for other in (post, pre)
            ]
            parts.append(below(f"{stack}: distance to post-LN", *distances))
        return all_of(parts)

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        panels = [scheme_panel(stack, results, "layer", "cosine", SCHEMES, stack=stack) for stack in STACKS]
        caption = "Cosine of each layer's output with the last one, 6-6 layers. The paper shows all pairs of layers."
        return [Exhibit("Figure 5", caption, panels, Axes(x="layer", y="cosine with the last layer"))]


def _below_last(results: ResultTable, scheme: str, stack: str) -> list[Sample]:
    """The cosines of all layers but the last."""
    *lower, _ = results.along("layer", "cosine", scheme=scheme, stack=stack).values()
    if not lower:
        raise Missing("a stack of one layer has none below the last")
    return lower


def _mean(samples: list[Sample]) -> Sample:
    """The mean over layers, seed by seed; None for a run that failed."""
    found: dict[SampleSeed, float | None] = {}
    for seed in samples[0].by_seed:
        values = [value for sample in samples if (value := sample.by_seed[seed]) is not None]
        found[seed] = sum(values) / len(values) if len(values) == len(samples) else None
    return Sample(found)
