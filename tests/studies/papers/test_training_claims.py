"""Studies that train models: every claim holds on made-up results as in the paper, and others break it."""

from __future__ import annotations

import pytest

from lamina.studies.papers import STUDIES
from lamina.studies.study import Study
from support.made_runs import Labels, Values, ValuesOf, check_claims, scored


def xiong_fig2(run: Labels) -> Values:
    if run["optimiser"] == "sgd":
        return scored(5.0 if run["warmup"] == 4000 else 0.1)
    return scored({1: 8.0, 500: 31.0 if run["rate"] == 5e-4 else 3.0, 4000: 34.0}[int(run["warmup"])])


def xiong_fig4(run: Labels) -> Values:
    fast = run["method"] == "pre-LN"
    return scored(34.0, (5.0, 4.0, 3.9) if fast else (6.0, 4.5, 4.1))


def xiong_fig6(run: Labels) -> Values:
    return scored({"1e-3, warm-up": 34.0, "1e-4, constant": 30.0, "1e-3, none": 8.0}[str(run["method"])])


def deep_losses(run: Labels) -> Values:
    """18-18 layers: post-LN fails, B2T is better than pre-LN."""
    return scored({"post-ln": None, "pre-ln": 26.0, "b2t": 27.0}[str(run["scheme"])])


def b2t_table1(run: Labels) -> Values:
    scores = {
        "6-6": {"post-ln": 26.59, "pre-ln": 26.1, "b2t": 26.53},
        "18-18": {"post-ln": None, "pre-ln": 26.57, "b2t": 27.3},
        "60-12": {"post-ln": None, "pre-ln": 26.42, "b2t": 27.33},
    }
    score = scores[str(run["depth"])][str(run["scheme"])]
    tokenised = None if score is None else score + 1
    return {**scored(score), "sacreBLEU": score, "tokenised BLEU": tokenised}


def b2t_table5(run: Labels) -> Values:
    if run.get("settings") == "common":
        return scored(None)
    return scored(27.3 if run["scheme"] == "b2t" else 26.5)


def b2t_fig8(run: Labels) -> Values:
    layers = int(run["layers"])
    if run["scheme"] == "post-ln":
        return scored(26.0 if layers <= 24 else None)
    better = 1.0 if run["scheme"] == "b2t" else 0.0
    return scored(20 + better + min(layers, 36) / 10 - max(0, layers - 36) / 100)


def overfitting(run: Labels) -> Values:
    return scored(26.0, (5.0, 4.0, 4.5, 4.8))


def b2t_ablation(run: Labels) -> Values:
    return scored(27.0 if run["scheme"] == "b2t" else 20.0)


def residual_table3(run: Labels) -> Values:
    if run["scheme"] == "resi-dual":
        return scored(26.85 if run["depth"] == "6-6" else 27.65)
    if run["scheme"] == "post-ln":
        return scored(26.59 if run["depth"] == "6-6" else None)
    return scored(26.1 if run["depth"] == "6-6" else 26.57)


def residual_table5(run: Labels) -> Values:
    warm = "warm-up" in str(run["schedule"])
    if run["scheme"] == "post-ln":
        return scored(None)
    if run["scheme"] == "pre-ln":
        return scored(35.1 if warm else 32.3)
    return scored(35.6 if warm else 35.8)


def admin_fig10(run: Labels) -> Values:
    if run["scheme"] == "post-ln":
        fails = float(run["rate"]) > 3e-4 or (run["rate"] == 3e-4 and run["beta"] == 0.99)
        return scored(None if fails else 35.87)
    return scored(35.5 if run["scheme"] == "pre-ln" else 35.89)


def admin_warmup(run: Labels) -> Values:
    return scored(None if run["scheme"] == "post-ln" else 28.0)


def admin_fig1(run: Labels) -> Values:
    curves = {"post-ln": (6.0, 5.0, 3.9), "pre-ln": (5.5, 4.5, 4.0), "admin": (5.5, 4.5, 3.8)}
    return scored(None if run["scheme"] == "post-ln" and run["depth"] != "6-6" else 27.0, curves[str(run["scheme"])])


def admin_table2(run: Labels) -> Values:
    if run["data"] == "iwslt":
        return scored(35.6)
    if run["data"] == "iwslt, dropout":
        return scored(37.0)
    if run["depth"] == "6-6":
        return scored({"post-ln": 27.8, "pre-ln": 27.27, "admin": 27.9}[str(run["scheme"])])
    deeper = {"12-12": 0.6, "18-18": 1.1, "60-12": 2.2}[str(run["depth"])]
    return scored({"post-ln": None, "pre-ln": 27.2 + 0.9 * deeper, "admin": 27.9 + deeper}[str(run["scheme"])])


def admin_table3(run: Labels) -> Values:
    return scored({"re-zero": 33.67, "re-zero-post-ln": 34.67}.get(str(run["scheme"]), 35.5))


def admin_inits(run: Labels) -> Values:
    return scored(None if (run["precision"], run["dropout"]) == ("fp16", 0.1) else 27.0)


def with_metrics(score: float | None, *metrics: str) -> Values:
    """A run whose metrics, on validation and test sets, have this value."""
    found = dict(scored(score, metrics=()))
    for metric in metrics:
        found |= {metric: score, f"test {metric}": score}
    return found


def headlines(run: Labels) -> Values:
    scores = {"post-ln": 38.6, "pre-ln": 38.0, "b2t": 38.7, "b2t-no-norm": 38.6}
    deep_post = run["scheme"] == "post-ln" and run["depth"] == "18-18"
    return with_metrics(None if deep_post else scores.get(str(run["scheme"]), 37.0), "rouge1", "rouge2", "rougeL")


def b2t_table3(run: Labels) -> Values:
    scores = {"post-ln": 20.2 if run["depth"] == "6" else None, "pre-ln": 21.0, "b2t": 20.5}
    return with_metrics(scores[str(run["scheme"])], "perplexity per word")


def b2t_table4(run: Labels) -> Values:
    score = {"post-ln": 8.8, "pre-ln": 9.7, "b2t": 8.9}[str(run["scheme"])]
    found = {**scored(score, metrics=()), "wer": score, "test wer@set=clean": score, "test wer@set=other": score}
    if run["depth"] == "12-6":
        return dict.fromkeys(found) if run["scheme"] == "post-ln" else {**found, "test wer@set=clean": 3.2}
    return found


def residual_table4(run: Labels) -> Values:
    scores = {"post-ln": None, "pre-ln": 30.3, "resi-dual": 31.0, "deep-norm": 31.1}
    return with_metrics(scores[str(run["scheme"])], "EX", "XE", "bleu")


def b2t_fig5(run: Labels) -> Values:
    lowest = {"post-ln": 0.3, "pre-ln": 0.8, "b2t": 0.4}[str(run["scheme"])]
    found: dict[str, float | None] = {"trained": 1.0}
    for layer in range(1, 7):
        found[f"cosine@stack=encoder,layer={layer}"] = lowest + (1 - lowest) * (layer - 1) / 5
        found[f"cosine@stack=decoder,layer={layer}"] = lowest + (1 - lowest) * (layer - 1) / 5
    return found


def admin_fig5(run: Labels) -> Values:
    found: dict[str, float | None] = dict(scored(5.0 if run.get("optimiser") == "sgd" else 30.0))
    for stage in ("before training", "after training"):
        found[f"share of smaller queries and keys@stage={stage}"] = 1.0
        found[f"spread@stage={stage},of=gradient"] = 100.0
        found[f"spread@stage={stage},of=update"] = 5.0
    return found


def xiong_fig5(run: Labels) -> Values:
    if run["method"] == "post-LN at the rate of pre-LN":
        return scored(None)
    fast = run["method"] == "pre-LN"
    found = dict(scored(20.0, (5.0, 3.0, 2.9, 2.8) if fast else (5.0, 4.0, 3.5, 3.0)))
    for task in ("mrpc", "rte"):
        for checkpoint in range(1, 4):
            for repeat, more in ((1, 0.0), (2, 2.0)):
                place = f"task={task},checkpoint={checkpoint},repeat={repeat}"
                found[f"accuracy@{place}"] = (80.0 if fast else 70.0) + more
    return found


PAPER: dict[str, ValuesOf] = {
    "admin-fig1": admin_fig1,
    "admin-fig5": admin_fig5,
    "admin-fig10": admin_fig10,
    "admin-fig9": admin_fig1,
    "admin-inits": admin_inits,
    "admin-table2": admin_table2,
    "admin-table3": admin_table3,
    "admin-warmup": admin_warmup,
    "b2t-ablation": b2t_ablation,
    "b2t-fig1": deep_losses,
    "b2t-fig5": b2t_fig5,
    "b2t-fig6": deep_losses,
    "b2t-fig8": b2t_fig8,
    "b2t-fig9": overfitting,
    "b2t-table1": b2t_table1,
    "b2t-table10": headlines,
    "b2t-table2": headlines,
    "b2t-table3": b2t_table3,
    "b2t-table4": b2t_table4,
    "b2t-table5": b2t_table5,
    "b2t-table6": headlines,
    "residual-table3": residual_table3,
    "residual-table4": residual_table4,
    "residual-table5": residual_table5,
    "xiong-fig2": xiong_fig2,
    "xiong-fig4": xiong_fig4,
    "xiong-fig5": xiong_fig5,
    "xiong-fig6": xiong_fig6,
}
"""For each study a function from the labels of a run to made-up numbers on which all claims hold."""


@pytest.mark.parametrize("name", PAPER)
def test_claims_hold_on_results_as_in_the_paper_and_fail_on_others(name: str) -> None:
    check_claims(STUDIES[name](), PAPER[name])


def test_every_study_that_trains_models_is_here() -> None:
    training = {name for name, study in STUDIES.members.items() if study().runs("tiny")}
    measured_too = {name for name in training if type(STUDIES[name]()).measure is not Study.measure}
    assert set(PAPER) == training - measured_too, "those that also measure new models have tests of their own"
