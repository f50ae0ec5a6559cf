"""BLEU of Admin, post-LN and pre-LN by depth, on three data sets.

Liu et al. 2020, table 2: where post-LN trains, the three are close; deeper, post-LN fails and Admin beats pre-LN.
"""

from __future__ import annotations

from lamina.studies.papers.exhibits import average_bleu, score_table
from lamina.studies.papers.trained_models import SUBSTITUTIONS, model_run, translation_grid
from lamina.studies.result_table import ResultTable
from lamina.studies.samples import Sample
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.study import Exhibit, Study, claim
from lamina.studies.verdicts import Verdict, above, all_of, at_least, close, failed

SCHEMES = ("post-ln", "pre-ln", "admin")
DROPOUTS = {"dropout": 0.3, "attention_dropout": 0.3, "activation_dropout": 0.3}


class AdminTable2(Study):
    paper = "admin"
    title = "BLEU of Admin, post-LN and pre-LN"
    substitutions = (
        *SUBSTITUTIONS,
        "WMT En-Fr: as WMT En-De, marn to selu",
        "RAdam: Adam; dropout 0.1 on IWSLT, not 0.3",
    )

    def runs(self, scale: str) -> list[StudyRun]:
        dropped = model_run(
            scale, "iwslt", scheme="admin", depth="6-6", rate=7e-4, model=DROPOUTS, labels={"data": "iwslt, dropout"}
        )
        return [
            *translation_grid(scale, "iwslt", SCHEMES, ("6-6",), rate=7e-4),
            dropped,
            *translation_grid(scale, "wmt", SCHEMES, ("6-6", "12-12", "18-18", "60-12")),
            *translation_grid(scale, "wmt-fr", SCHEMES, ("6-6", "60-12"), rate=7e-4),
        ]

    @claim("A-34", "IWSLT, 6-6 layers: the three are alike", paper="35.64 ± 0.23, 35.50 ± 0.04, 35.67 ± 0.15")
    def alike(self, results: ResultTable) -> Verdict:
        post, pre, admin = (results.sample("bleu", scheme=scheme, data="iwslt") for scheme in SCHEMES)
        pairs = {"post-LN − pre-LN": (post, pre), "Admin − post-LN": (admin, post), "Admin − pre-LN": (admin, pre)}
        return all_of(close(name, first, second, 0.4) for name, (first, second) in pairs.items())

    @claim("A-35", "WMT En-De, 6-6 layers: Admin, post-LN, pre-LN in this order", paper="27.90 27.80 27.27")
    def order(self, results: ResultTable) -> Verdict:
        return _ordered(results, "wmt")

    @claim(
        "A-36",
        "12-12 and 18-18 layers: post-LN fails, Admin beats pre-LN",
        paper="28.58 against 28.26; 29.03 against 28.38",
        remark="B2T trains post-LN at 12-12 (B-30), so failure is a rate over seeds.",
    )
    def deeper(self, results: ResultTable) -> Verdict:
        return all_of(_post_fails_and_admin_wins(results, "wmt", depth) for depth in ("12-12", "18-18"))

    @claim("A-37", "Admin gains at least as much from depth as pre-LN", paper="1.13 against 1.11")
    def gains_from_depth(self, results: ResultTable) -> Verdict:
        admin, pre = (_bleu(results, each, "18-18") - _bleu(results, each, "6-6") for each in ("admin", "pre-ln"))
        return above("BLEU gained by Admin", admin, pre)

    @claim("A-38", "WMT En-Fr, 6-6 layers: the same order", paper="41.47 41.29 40.74")
    def order_in_french(self, results: ResultTable) -> Verdict:
        return _ordered(results, "wmt-fr")

    @claim("A-39", "WMT En-Fr, 60-12 layers: post-LN fails, Admin beats pre-LN", paper="43.80 against 43.10")
    def deeper_in_french(self, results: ResultTable) -> Verdict:
        return _post_fails_and_admin_wins(results, "wmt-fr", "60-12")

    @claim("A-40", "WMT En-De: 60-12 layers of Admin go further than 18-18", paper="30.1")
    def deepest(self, results: ResultTable) -> Verdict:
        return above("average BLEU, 60-12", _bleu(results, "admin", "60-12"), _bleu(results, "admin", "18-18"))

    @claim("A-48", "Attention and activation dropout matter much on IWSLT", paper="said, no number")
    def dropout_matters(self, results: ResultTable) -> Verdict:
        """In either direction, by more than half a point."""
        plain, dropped = (results.sample("bleu", scheme="admin", data=data) for data in ("iwslt", "iwslt, dropout"))
        return at_least(1, [above("BLEU gained", dropped - plain, 0.5), above("BLEU lost", plain - dropped, 0.5)])

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = {scheme: {"scheme": scheme} for scheme in SCHEMES}
        iwslt = {"IWSLT 6-6": ("bleu", {"data": "iwslt"})}
        others = {
            f"{name} {depth}": ("bleu", {"data": data, "depth": depth})
            for data, name, depths in (
                ("wmt", "En-De", ("6-6", "12-12", "18-18", "60-12")),
                ("wmt-fr", "En-Fr", ("6-6", "60-12")),
            )
            for depth in depths
        }
        table = score_table(results, "BLEU on the validation sets", rows, {**iwslt, **others}, "scheme")
        return [Exhibit("Table 2", "BLEU; claims use the average of the test years.", tables=(table,))]


def _bleu(results: ResultTable, scheme: str, depth: str, data: str = "wmt") -> Sample:
    return average_bleu(results, scheme, depth, data=data)


def _ordered(results: ResultTable, data: str) -> Verdict:
    post, pre, admin = (_bleu(results, scheme, "6-6", data) for scheme in SCHEMES)
    return all_of([above("Admin − post-LN", admin - post, -0.05), above("post-LN against pre-LN", post, pre)])


def _post_fails_and_admin_wins(results: ResultTable, data: str, depth: str) -> Verdict:
    status = results.sample("trained", scheme="post-ln", depth=depth, data=data)
    admin, pre = (_bleu(results, scheme, depth, data) for scheme in ("admin", "pre-ln"))
    return all_of([failed(f"post-LN, {depth}", status), above(f"average BLEU, {depth}", admin, pre)])
