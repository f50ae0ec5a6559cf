"""Perplexity of language models.

Takase et al. 2023, table 3: 6 and 16 layers on WikiText-103.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import Condition, score_table
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, THREE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, below, failed

SCHEMES = ("post-ln", "pre-ln", "b2t")
DEPTHS = ("6", "16")
SETS = {"valid": "perplexity per word", "test": "test perplexity per word"}


class B2tTable3(Study):
    paper = "b2t"
    title = "Perplexity of language models"
    substitutions = (SUBSTITUTIONS[0], "WikiText-103: running text in marn, 1,500 sub-words, blocks of 64 tokens")

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "text",
                scheme=scheme,
                depth=depth,
                task="language-modelling",
                task_options={"block_length": 64},
                max_tokens=512,
                seeds=FIVE_SEEDS if scheme == "post-ln" and depth == "16" else THREE_SEEDS,
            )
            for depth in DEPTHS
            for scheme in SCHEMES
        ]

    @claim(
        "B-21",
        "Language model of 6 layers: post-LN and B2T beat pre-LN",
        paper="20.24/21.22, 20.50/21.47, 20.98/21.93",
    )
    def shallow(self, results: ResultTable) -> Verdict:
        return all_of(verdict for scheme in ("post-ln", "b2t") for verdict in _beats_pre(results, scheme, "6"))

    @claim(
        "B-22",
        "Language model of 16 layers: post-LN fails, B2T beats pre-LN",
        paper="18.38/19.20 against 18.53/19.24",
    )
    def deep(self, results: ResultTable) -> Verdict:
        status = results.sample("trained", scheme="post-ln", depth="16")
        return all_of([failed("post-LN", status), *_beats_pre(results, "b2t", "16")])

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {f"{scheme}, {depth}": {"scheme": scheme, "depth": depth} for depth in DEPTHS for scheme in SCHEMES}
        columns: dict[str, tuple[str, Condition]] = {name: (quantity, {}) for name, quantity in SETS.items()}
        table = score_table(results, "Perplexity per word", rows, columns, "scheme, layers")
        return [Exhibit("Table 3", "Perplexity of language models.", tables=(table,))]


def _beats_pre(results: ResultTable, scheme: str, depth: str) -> list[Verdict]:
    return [
        below(
            f"{scheme}, {name}",
            results.sample(quantity, scheme=scheme, depth=depth),
            results.sample(quantity, scheme="pre-ln", depth=depth),
        )
        for name, quantity in SETS.items()
    ]
