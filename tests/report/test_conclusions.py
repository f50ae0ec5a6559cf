"""The conclusions of a comparison follow from its runs: other runs, other sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from lamina.diagnosis.measurement import Fact, Location, Stage
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.results import Diagnosis, Finding
from lamina.report.conclusions import best_run, draw_conclusions
from lamina.report.run_results import RunResult


def result(
    scheme: str, loss: float | None, *, layers: int = 12, state: str = "finished", ratio: float = 1.0
) -> RunResult:
    """A run whose last decoder matrices have this ratio of first to last gradient, and other matrices another.

    The decoder, from which the loss is computed, is not the last stack of the list.
    """
    ratios = [("decoder", "query", 7.0), ("decoder", "outer", ratio), ("encoder", "outer", 1.0)]
    facts = [Fact(name="first/last", location=Location(stack=s, matrix=m), value=value) for s, m, value in ratios]
    start = Diagnosis(
        name=scheme,
        model="",
        output_stack="decoder",
        stage=Stage(name="start"),
        measurements=(GradientByLayer().measurement(facts=facts),),
    )
    seconds = None if loss is None else 10 * loss
    name = f"{scheme}-{layers}"
    return RunResult(name, (scheme,), (layers, layers), 1, state, best_loss=loss, seconds=seconds, start=start)


RUNS = [result("post-ln", 5.5, state="failed", ratio=0.031), result("b2t", 1.5, ratio=0.9), result("pre-ln", 1.8)]


def test_conclusions_name_what_fails_why_and_the_best_scheme() -> None:
    who, why, what = draw_conclusions(RUNS)
    assert "post-ln fails (validation loss 5.50)" in who
    assert "b2t 1.50, pre-ln 1.80" in who
    assert "0.031 of the last layer's in post-ln, and 0.9 in b2t" in why
    assert what == "Best here: b2t, validation loss 1.50, at 1.00 times the time of the fastest."


def test_what_the_findings_expected_is_said_whether_it_came_or_not() -> None:
    def expecting(run: RunResult, severity: Literal["warning", "failure"], check: str = "learning-rate") -> RunResult:
        assert run.start is not None
        found = Finding(check=check, severity=severity, sentence="", value=1.0, threshold=1.0)
        return replace(run, start=run.start.model_copy(update={"findings": (found,)}))

    post, b2t, pre = RUNS
    assert draw_conclusions(RUNS)[1].endswith("; no finding expected a failure.")
    assert draw_conclusions([expecting(post, "warning"), b2t, pre])[1].endswith("; no finding expected a failure.")
    one = [expecting(post, "failure"), b2t, pre]
    assert draw_conclusions(one)[1].endswith("; the findings expected post-ln to fail, and no other.")
    wrong = [post, expecting(b2t, "failure"), pre]
    assert draw_conclusions(wrong)[1].endswith("; the findings expected b2t to fail, and no other.")
    other = [expecting(post, "failure", "overflow"), b2t, pre]
    assert draw_conclusions(other)[1].endswith("; no finding expected a failure."), "overflow predicts no failure"
    unseen = [expecting(post, "failure"), b2t, pre, replace(pre, schemes=("dlcl",), start=None)]
    assert draw_conclusions(unseen)[1].endswith("; the findings expected post-ln to fail."), "dlcl was not diagnosed"
    all_of_them = [expecting(run, "failure") for run in RUNS]
    assert draw_conclusions(all_of_them)[1].endswith("; the findings expected b2t, pre-ln, post-ln to fail.")


def test_other_runs_change_the_conclusions() -> None:
    others = [result("post-ln", 1.2), result("b2t", 5.0, state="failed", ratio=0.001), result("pre-ln", 1.3)]
    who, why, what = draw_conclusions(others)
    assert "b2t fails (validation loss 5.00)" in who
    assert "0.001 of the last layer's in b2t, and 1 in post-ln" in why
    assert what.startswith("Best here: post-ln, validation loss 1.20")


def test_one_that_lags_differs_from_one_that_fails() -> None:
    who = draw_conclusions([result("post-ln", 3.5), result("b2t", 1.5), result("pre-ln", 1.8)])[0]
    assert "post-ln lags (validation loss 3.50)" in who
    assert "pre-ln lags" not in who


def test_all_train() -> None:
    who = draw_conclusions([result("post-ln", 1.52), result("b2t", 1.5)])[0]
    assert who == "At depth 12-12 all schemes train: validation losses from 1.50 (b2t) to 1.52 (post-ln)."


def test_none_trains() -> None:
    who = draw_conclusions([result("post-ln", 5.5, state="failed"), result("b2t", 5.4, state="failed")])[0]
    assert who.startswith("At depth 12-12 no scheme trains: post-ln fails")


def test_some_seeds_fail() -> None:
    runs = [result("post-ln", 5.5, state="failed"), result("post-ln", 1.2), result("b2t", 1.5)]
    who, _, what = draw_conclusions(runs)
    assert "post-ln fails in 1 of 2 runs (validation loss of the others 1.20)" in who
    assert what.startswith("Best here: b2t")


def test_one_that_fails_before_its_first_validation_is_named() -> None:
    early = replace(RUNS[0], best_loss=None)
    who, why, what = draw_conclusions([early, *RUNS[1:]])
    assert who.startswith("At depth 12-12 post-ln fails before its first validation. The same model")
    assert "b2t 1.50, pre-ln 1.80" in who
    assert "0.031 of the last layer's in post-ln" in why
    assert what.startswith("Best here: b2t")
    assert draw_conclusions([early])[0] == "At depth 12-12 post-ln fails before its first validation."


def test_one_that_breaks_off_early_is_not_the_fastest() -> None:
    runs = [replace(RUNS[0], seconds=0.1), *RUNS[1:]]
    assert draw_conclusions(runs)[2] == "Best here: b2t, validation loss 1.50, at 1.00 times the time of the fastest."
    assert len(draw_conclusions([replace(run, state="failed") for run in RUNS])) == 2, "nothing to use"


def test_the_deepest_models_count() -> None:
    runs = [*RUNS, *(replace(run, layers=(6, 6), state="finished") for run in RUNS)]
    assert "At depth 9-30" in draw_conclusions([*runs, replace(RUNS[1], layers=(9, 30))])[0], "by their sum"
    assert "At depth 12-12" in draw_conclusions(runs)[0]


def test_nothing_is_said_of_runs_without_results() -> None:
    assert draw_conclusions([]) == []
    assert draw_conclusions([replace(RUNS[1], best_loss=None, state="running")]) == []
    assert len(draw_conclusions([replace(run, start=None) for run in RUNS])) == 2


def test_the_best_run_has_finished() -> None:
    best = best_run(RUNS)
    assert best is not None
    assert best.schemes == ("b2t",)
    assert best_run([RUNS[0]]) is None


def test_runs_that_are_too_short_are_neither_failed_nor_trained() -> None:
    short = [result("post-ln", 6.3, state="too short"), result("b2t", 6.2, state="too short")]
    sentence = draw_conclusions(short)[0]
    assert sentence == (
        "At depth 12-12 the runs are too short to tell which schemes train: validation losses b2t 6.20, post-ln 6.30."
    )
    mixed = draw_conclusions([*short[:1], result("b2t", 6.2)])
    assert "post-ln is too short to be judged (validation loss 6.30)" in mixed[0]
    assert "b2t 6.20" in mixed[0]
    assert "all schemes train" not in mixed[0]


def test_diagnoses_without_the_stack_of_the_loss_are_named() -> None:
    def older(run: RunResult) -> RunResult:
        assert run.start is not None
        values = run.start.model_dump()
        del values["output_stack"]
        return replace(run, start=Diagnosis.model_validate(values))

    post, b2t, pre = RUNS
    _, why, _ = draw_conclusions([older(post), older(b2t), older(pre)])
    assert "not recorded by the version that made the diagnosis; lamina diagnose makes it again" in why
    assert "b2t, pre-ln, post-ln" in why
    _, why, _ = draw_conclusions([post, b2t, older(pre)])
    assert "0.031 of the last layer's in post-ln" in why
    assert "of pre-ln are not compared" in why
    assert "recorded" not in draw_conclusions(RUNS)[1]


def test_settings_are_told_apart_and_not_counted_as_seeds() -> None:
    slow, fast = (("learning_rate", "0.0001"),), (("learning_rate", "0.01"),)
    runs = [replace(result("b2t", loss), settings=own) for loss, own in ((1.5, slow), (1.7, slow), (5.0, fast))]
    who, *_, what = draw_conclusions(runs)
    assert "b2t, learning_rate = 0.01 lags (validation loss 5.00)" in who
    assert who.endswith("The others: b2t, learning_rate = 0.0001 1.60."), "the residual connection is the same"
    assert what.startswith("Best here: b2t, learning_rate = 0.0001, validation loss 1.60")


def test_a_single_model_is_not_compared() -> None:
    assert draw_conclusions([result("b2t", 1.5), result("b2t", 1.7)]) == [
        "At depth 12-12 b2t trains: validation loss 1.60."
    ]
    (failed,) = draw_conclusions([result("b2t", 5.0, state="failed")])
    assert failed == "At depth 12-12 b2t fails (validation loss 5.00)."
    (short,) = draw_conclusions([result("b2t", 5.0, state="too short")])
    assert short == "At depth 12-12 b2t is too short to be judged (validation loss 5.00)."
    (running,) = draw_conclusions([result("b2t", 5.0, state="running")])
    assert running == "At depth 12-12 b2t has not ended: validation loss 5.00."
