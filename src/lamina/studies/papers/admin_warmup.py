"""18-18 post-LN with ever longer warm-up.

Liu et al. 2020, section 3: a longer warm-up does not make it train.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import score_table
from lamina.studies.papers.trained_models import SUBSTITUTIONS, WARMUP, model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.shared_runs.declared import FIVE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, failed

WARMUPS = {8000: WARMUP, 16_000: 150, 24_000: 200, 32_000: 250}
"""The paper's warm-ups, each with ours."""


class AdminWarmup(Study):
    paper = "admin"
    title = "18-18 post-LN with a longer warm-up"
    substitutions = (*SUBSTITUTIONS[::2], "RAdam: Adam", "Warm-ups of 8k to 32k steps: 100, 150, 200, 250 of 400")

    def runs(self, scale: str) -> list[StudyRun]:
        """Besides post-LN, one run of pre-LN that shows whether the runs are long enough."""
        post = [
            model_run(
                scale,
                "wmt",
                scheme="post-ln",
                depth="18-18",
                warmup=ours,
                labels={"warmup": warmup},
                seeds=FIVE_SEEDS,
            )
            for warmup, ours in WARMUPS.items()
        ]
        return [*post, model_run(scale, "wmt", scheme="pre-ln", depth="18-18", labels={"warmup": 8000})]

    @claim("A-43", "A longer warm-up does not save 18-18 post-LN", paper="failed four times")
    def not_saved(self, results: ResultTable) -> Verdict:
        status = results.along("warmup", "trained", scheme="post-ln")
        return all_of(failed(f"warm-up {warmup}", each) for warmup, each in status.items())

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {"post-ln": {"scheme": "post-ln"}, "pre-ln": {"scheme": "pre-ln"}}
        columns = {f"warm-up {warmup:,}": ("validation loss", {"warmup": warmup}) for warmup in WARMUPS}
        table = score_table(results, "Validation loss by warm-up of the paper", rows, columns)
        return [Exhibit("Warm-up", "18-18 layers.", tables=(table,))]
