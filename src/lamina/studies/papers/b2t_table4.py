"""Word error rates of speech recognition.

Takase et al. 2023, table 4: 6-6 and 12-6 layers on LibriSpeech.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import Condition, score_table
from lamina.studies.papers.trained_models import model_run
from lamina.studies.result_table import ResultTable
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.data_sets import NOISE_LEVELS
from lamina.studies.shared_runs.declared import FIVE_SEEDS, THREE_SEEDS, StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, all_of, below, close, failed

SCHEMES = ("post-ln", "pre-ln", "b2t")
DEPTHS = ("6-6", "12-6")
SETS: dict[str, tuple[str, Condition]] = {
    "dev": ("wer", {}),
    **{f"test {level}": ("test wer", {"set": level}) for level in NOISE_LEVELS},
}


class B2tTable4(Study):
    paper = "b2t"
    title = "Word error rates of speech recognition"
    substitutions = (
        "Width 64, 400 steps of 3,000 frames; learning rates are the paper's times 3, warm-ups a fortieth",
        "LibriSpeech: a synthetic voice with little noise (clean) and much (other); the development set has both",
    )

    def runs(self, scale: str) -> list[StudyRun]:
        return [
            model_run(
                scale,
                "speech",
                scheme=scheme,
                depth=depth,
                task="speech-recognition",
                max_tokens=3000,
                model={"front_end_channels": 16 if scale == "micro" else 64},
                seeds=FIVE_SEEDS if scheme == "post-ln" and depth == "12-6" else THREE_SEEDS,
            )
            for depth in DEPTHS
            for scheme in SCHEMES
        ]

    @claim(
        "B-23",
        "Speech, 6-6 layers: post-LN and B2T beat pre-LN on all sets",
        paper="3.78 8.76 4.19 8.74; 3.69 8.97 3.86 8.94; 3.89 9.69 4.22 9.65",
    )
    def shallow(self, results: ResultTable) -> Verdict:
        parts = []
        for name in SETS:
            post, pre, b2t = (_rate(results, scheme, "6-6", name) for scheme in SCHEMES)
            parts += [below(f"post-LN, {name}", post, pre), below(f"B2T, {name}", b2t, pre)]
        return all_of(parts)

    @claim(
        "B-24",
        "Speech, 12-6 layers: post-LN fails; B2T wins on “other” and equals pre-LN on “clean”",
        paper="3.26 7.74 3.48 7.68 against 3.21 7.91 3.49 8.22",
    )
    def deep(self, results: ResultTable) -> Verdict:
        (clean, clean_pre), (other, other_pre) = (
            [_rate(results, scheme, "12-6", f"test {level}") for scheme in ("b2t", "pre-ln")] for level in NOISE_LEVELS
        )
        status = results.sample("trained", scheme="post-ln", depth="12-6")
        return all_of(
            [failed("post-LN", status), below("other", other, other_pre), close("clean", clean, clean_pre, 0.1)]
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {f"{scheme}, {depth}": {"scheme": scheme, "depth": depth} for depth in DEPTHS for scheme in SCHEMES}
        table = score_table(results, "Word error rate, %", rows, SETS, "scheme, layers")
        return [Exhibit("Table 4", "Word error rates.", tables=(table,))]


def _rate(results: ResultTable, scheme: str, depth: str, name: str) -> Sample:
    quantity, labels = SETS[name]
    return results.sample(quantity, scheme=scheme, depth=depth, **labels)
