"""How much each layer depends on each branch, at initialisation and after training: the maps of β_ij.

Liu et al. 2020, figure 7: a post-LN layer relies most on its own branch, a pre-LN layer equally on all earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import log, nan
from statistics import fmean

from lamina.diagnosis.measurement import Grid
from lamina.diagnosis.measures.layer_dependency import shares
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run
from lamina.studies.papers.dependency_shares import (
    START,
    double_branch,
    measure_predictions,
    measure_shares,
    omegas_of,
    ratio_of_first_variances,
    record_encoder,
)
from lamina.studies.papers.initial_models import EXTENT, SUBSTITUTION, initial_subject
from lamina.studies.papers.trained_models import SUBSTITUTIONS, of_trained_models, translation_grid
from lamina.studies.papers.trained_stages import AFTER, BEFORE, stages_of
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.samples import Sample, fit_line
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, undecided, within

SCHEMES = ("post-ln", "pre-ln", "admin")
WHOLE_BATCH, PART = 8192, 16
"""The number of tokens of a batch, and the share of it that is profiled."""
DOUBLED = 6
"""The sub-layer whose branch is doubled: the feed-forward of layer 3."""


class AdminFig7(Study):
    paper = "admin"
    title = "Dependency of each layer on each branch"
    substitutions = (SUBSTITUTION, *of_trained_models(*SUBSTITUTIONS[::2], "RAdam: Adam"))

    def runs(self, scale: str) -> list[StudyRun]:
        return translation_grid(scale, "wmt", SCHEMES, ("6-6",))

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        yield from context.runs.rows(self)
        seeds = range(1, context.choose(micro=3, otherwise=10) + 1)
        for scheme in SCHEMES:
            subject = initial_subject(context, scheme, (6, 1))
            for seed in seeds:
                encoder = record_encoder(subject.build(seed), subject.passes[0])
                yield from measure_shares(encoder, seed, scheme)
                yield from measure_predictions(encoder, seed, scheme)
        for seed in seeds:
            yield from _deep_admin(context, seed)
            yield from _profiled_parts(context, seed)
            yield from _doubled(context, seed)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        scheme = str(run.config.model.residual)
        for stage in stages_of(run):
            encoder = record_encoder(stage.model, stage.passes[0])
            yield from measure_shares(encoder, run.config.seed, scheme, stage.name)

    @claim("A-16", "The shares of all branches square to one at the start", paper="1")
    def square_to_one(self, results: ResultTable) -> Verdict:
        return all_of(
            within(f"{scheme}, i = {i}: Σβ²", total, 0.92, 1.08)
            for scheme in SCHEMES
            for i, total in results.along("i", "Σβ²", scheme=scheme, stage=START).items()
        )

    @claim(
        "A-17",
        "Pre-LN: a new layer relies equally on all earlier branches",
        paper="β²_ii = 1/i for equal variances and no embedding",
        remark="Judged by the feed-forward branches: attention branches have another variance.",
    )
    def equal_shares(self, results: ResultTable) -> Verdict:
        shares = results.where("β", scheme="pre-ln", stage=START, kind="feed-forward")
        rows = [i for i in range(3, 13) if len(shares.where(i=i, j=2)) and len(shares.where(i=i, j=4))]
        return all_of(
            [
                *(below(f"i = {i}: largest ÷ least β", shares.largest_to_least("j", "β", i=i), 1.3) for i in rows),
                *_predicted(results, "pre-ln"),
            ]
        )

    @claim("A-18", "Post-LN: a layer relies most on its own branch, equally at all depths", paper="constant")
    def own_branch(self, results: ResultTable) -> Verdict:
        post = results.where(scheme="post-ln", stage=START)
        late = post.where("β of the own branch").between("i", low=5)
        slopes = {
            kind: late.slope("i", "β of the own branch", kind=kind) for kind in ("self-attention", "feed-forward")
        }
        own = post.along("i", "own β ÷ largest earlier β")
        return all_of(
            [
                *(within(f"{kind}: slope of β_ii", slope, -0.02, 0.02) for kind, slope in slopes.items()),
                *(above(f"i = {i}: own β ÷ largest earlier β", ratio, 1.0) for i, ratio in own.items()),
            ]
        )

    @claim("A-19", "Pre-LN learns to rely more on its own branch, but less than post-LN", paper="figure 7")
    def learns_own_branch(self, results: ResultTable) -> Verdict:
        before, after = (mean_own_share(results, "pre-ln", stage) for stage in (BEFORE, AFTER))
        post = mean_own_share(results, "post-ln", AFTER)
        return all_of(
            [
                above("pre-LN, mean β_ii after training", after, before),
                below("pre-LN, mean β_ii after training", after, post, better="higher"),
            ]
        )

    @claim("A-20", "The variance of the Pre-LN stream grows with depth", paper="said")
    def variance_grows(self, results: ResultTable) -> Verdict:
        parts = list(_growing(results, START))
        if not results.where("variance of the stream", scheme="pre-ln", stage=AFTER):
            return all_of([*parts, undecided("no model was trained", AFTER)])
        return all_of([*parts, *_growing(results, AFTER)])

    @claim(
        "A-27",
        "Admin starts with β²_ii of about 1/i",
        paper="1/i",
        remark="The embedding counts for Var[x₀] ÷ Var[f] branches, so the power is fitted to i plus that number.",
    )
    def admin_starts_as_one_over_i(self, results: ResultTable) -> Verdict:
        return all_of(
            [within("power of i", results.sample("power of i, 18 layers"), -1.3, -0.8), *_predicted(results, "admin")]
        )

    @claim("A-28", "A small batch is enough to profile ω", paper="the first batch, at most 8192 tokens")
    def small_batch(self, results: ResultTable) -> Verdict:
        return all_of(
            within(f"ω_{i} of a sixteenth ÷ ω_{i} of the batch", ratio, 0.97, 1.03)
            for i, ratio in results.along("i", "ω of a part ÷ ω").items()
        )

    @claim("A-51", "A branch of larger variance takes a larger share and shrinks the others", paper="said")
    def larger_variance(self, results: ResultTable) -> Verdict:
        return all_of(
            part
            for scheme in ("post-ln", "pre-ln")
            for part in (
                above(f"{scheme}: own β, doubled − plain", results.sample("gain of the own β", scheme=scheme), 0.0),
                below(
                    f"{scheme}: largest gain of an earlier β",
                    results.sample("largest gain of an earlier β", scheme=scheme),
                    0.0,
                ),
            )
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        maps = {
            f"6-layer {scheme}, {stage}": share_map(results, scheme, stage)
            for scheme in SCHEMES
            for stage in (START, AFTER)
            if results.where("β", scheme=scheme, stage=stage)
        }
        caption = (
            "β_ij in the encoder of 6-layer models: rows are the outputs x_i of the 12 sub-layers, columns the "
            "branches a_j. The paper shows Admin in figure 8."
        )
        return [Exhibit("Figure 7", caption, maps=maps)]


def mean_own_share(results: ResultTable, scheme: str, stage: str) -> Sample:
    """The mean of β_ii over all sub-layers."""
    return results.reduce(fmean, "i", "β of the own branch", scheme=scheme, stage=stage)


def share_map(results: ResultTable, scheme: str, stage: str) -> Grid:
    """The mean β_ij over seeds, without the embedding, as in the paper."""
    found = results.where("β", scheme=scheme, stage=stage)
    size = max((int(each.labels["i"]) for each in found), default=0)
    lines = [{int(j): sample.mean for j, sample in found.along("j", "β", i=i).items()} for i in range(1, size + 1)]
    values = tuple(tuple(line.get(j, nan) for j in range(1, size + 1)) for line in lines)
    return Grid(values=values, rows="x_i", columns="a_j")


def _predicted(results: ResultTable, scheme: str) -> Iterator[Verdict]:
    for i, ratio in results.along("i", "β² ÷ prediction", scheme=scheme).items():
        yield within(f"i = {i}: β²_ii ÷ prediction", ratio, 0.9, 1.1)


def _growing(results: ResultTable, stage: str) -> Iterator[Verdict]:
    variances = results.along("i", "variance of the stream", scheme="pre-ln", stage=stage)
    for (lower, before), (upper, after) in pairwise(variances.items()):
        yield above(f"{stage}: Var[x_{upper}] ÷ Var[x_{lower}]", after / before, 1.0)


def _deep_admin(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """The power of i with which β²_ii falls at the feed-forward sub-layers of an 18-layer Admin encoder."""
    subject = initial_subject(context, "admin", (18, 1))
    encoder = record_encoder(subject.build(seed), subject.passes[0])
    first = ratio_of_first_variances(encoder)
    points = [(log(i + first), 2 * log(line[-1])) for i, line in enumerate(shares(encoder), start=1) if i % 2 == 0]
    yield row("power of i, 18 layers", fit_line(*zip(*points, strict=True))[0], seed)


def _profiled_parts(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """ω profiled on a sixteenth of a batch divided by ω profiled on the whole of it."""
    tokens = context.choose(micro=256, otherwise=WHOLE_BATCH)
    whole, part = (
        _profiled(context, replace(EXTENT, batches=1, tokens=number), seed) for number in (tokens, tokens // PART)
    )
    for i, (one, other) in enumerate(zip(part, whole, strict=True), start=1):
        yield row("ω of a part ÷ ω", one / other, seed, i=i)


def _profiled(context: StudyContext, extent: Extent, seed: int) -> list[float]:
    subject = initial_subject(context, "admin", (6, 1), extent)
    return omegas_of(record_encoder(subject.build(seed), subject.passes[0]))


def _doubled(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """The gains of the shares in one row of β when the branch of that row is doubled."""
    for scheme in ("post-ln", "pre-ln"):
        subject = initial_subject(context, scheme, (3, 1))
        model = subject.build(seed)
        plain = list(shares(record_encoder(model, subject.passes[0])))[DOUBLED - 1]
        double_branch(model, DOUBLED)
        doubled = list(shares(record_encoder(model, subject.passes[0])))[DOUBLED - 1]
        *earlier, own = (after - before for before, after in zip(plain, doubled, strict=True))
        yield row("gain of the own β", own, seed, scheme=scheme)
        yield row("largest gain of an earlier β", max(earlier), seed, scheme=scheme)
