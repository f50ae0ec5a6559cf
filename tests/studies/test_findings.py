"""The sentences of a comparison follow from its runs: doctored runs, other sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from lamina.diagnosis.results import Diagnosis, Measure, Verdict
from lamina.report.findings import best_run, findings
from lamina.report.run_results import LOSS, RunStory


def story(scheme: str, loss: float, *, depth: str = "12-12", state: str = "finished", share: float = 1.0) -> RunStory:
    blank = Measure(key="gradient-by-layer", title="", formula="", source="", look_for="")
    facts = {"encoder outer first/last": 1.0, "decoder outer first/last": share}
    start = Diagnosis(name=scheme, model="", measures=(blank.model_copy(update={"facts": facts}),))
    name, metrics = f"{scheme}-{depth}", {LOSS: loss}
    return RunStory(name, scheme, depth, 1, state, metrics=metrics, seconds=10 * loss, start=start)


RUNS = [story("post-ln", 5.5, state="failed", share=0.031), story("b2t", 1.5, share=0.9), story("pre-ln", 1.8)]


def test_who_fails_why_and_what_to_use() -> None:
    who, why, what = findings(RUNS)
    assert "post-ln fails (validation loss 5.50)" in who
    assert "b2t 1.50, pre-ln 1.80" in who
    assert "0.031 of the last layer's in post-ln, and 0.9 in b2t" in why
    assert what == "Best here: b2t, validation loss 1.50, at 1.00 times the time of the fastest."


def test_what_the_verdicts_expected_is_told_whether_it_came_or_not() -> None:
    def expecting(
        run: RunStory, severity: Literal["warning", "failure"], kind: Literal["rate", "overflow"] = "rate"
    ) -> RunStory:
        assert run.start is not None
        found = Verdict(kind=kind, severity=severity, sentence="", value=1.0, threshold=1.0)
        return replace(run, start=run.start.model_copy(update={"verdicts": (found,)}))

    post, b2t, pre = RUNS
    assert findings(RUNS)[1].endswith("; no verdict expected a failure.")
    assert findings([expecting(post, "warning"), b2t, pre])[1].endswith("; no verdict expected a failure.")
    one = [expecting(post, "failure"), b2t, pre]
    assert findings(one)[1].endswith("; the verdicts expected post-ln to fail, and no other.")
    wrong = [post, expecting(b2t, "failure"), pre]
    assert findings(wrong)[1].endswith("; the verdicts expected b2t to fail, and no other.")
    other = [expecting(post, "failure", "overflow"), b2t, pre]
    assert findings(other)[1].endswith("; no verdict expected a failure."), "half precision is another matter"
    unseen = [expecting(post, "failure"), b2t, pre, replace(pre, scheme="dlcl", start=None)]
    assert findings(unseen)[1].endswith("; the verdicts expected post-ln to fail."), "nobody looked at dlcl"
    all_of_them = [expecting(run, "failure") for run in RUNS]
    assert findings(all_of_them)[1].endswith("; the verdicts expected b2t, pre-ln, post-ln to fail.")


def test_doctored_runs_change_the_verdict() -> None:
    doctored = [story("post-ln", 1.2), story("b2t", 5.0, state="failed", share=0.001), story("pre-ln", 1.3)]
    who, why, what = findings(doctored)
    assert "b2t fails (validation loss 5.00)" in who
    assert "0.001 of the last layer's in b2t, and 1 in post-ln" in why
    assert what.startswith("Best here: post-ln, validation loss 1.20")


def test_one_that_lags_is_told_from_one_that_fails() -> None:
    who = findings([story("post-ln", 3.5), story("b2t", 1.5), story("pre-ln", 1.8)])[0]
    assert "post-ln lags (validation loss 3.50)" in who
    assert "pre-ln lags" not in who


def test_all_train() -> None:
    who = findings([story("post-ln", 1.52), story("b2t", 1.5)])[0]
    assert who == "At depth 12-12 all schemes train: validation losses from 1.50 (b2t) to 1.52 (post-ln)."


def test_none_trains() -> None:
    who = findings([story("post-ln", 5.5, state="failed"), story("b2t", 5.4, state="failed")])[0]
    assert who.startswith("At depth 12-12 no scheme trains: post-ln fails")


def test_some_seeds_fail() -> None:
    runs = [story("post-ln", 5.5, state="failed"), story("post-ln", 1.2), story("b2t", 1.5)]
    who, _, what = findings(runs)
    assert "post-ln fails in 1 of 2 runs (validation loss of the others 1.20)" in who
    assert what.startswith("Best here: b2t")


def test_one_that_fails_before_its_first_validation_is_told_of() -> None:
    early = replace(RUNS[0], metrics={})
    who, why, what = findings([early, *RUNS[1:]])
    assert who.startswith("At depth 12-12 post-ln fails before its first validation. The same model")
    assert "b2t 1.50, pre-ln 1.80" in who
    assert "0.031 of the last layer's in post-ln" in why
    assert what.startswith("Best here: b2t")
    assert findings([early])[0] == "At depth 12-12 no scheme trains: post-ln fails before its first validation."


def test_one_that_breaks_off_early_is_not_the_fastest() -> None:
    runs = [replace(RUNS[0], seconds=0.1), *RUNS[1:]]
    assert findings(runs)[2] == "Best here: b2t, validation loss 1.50, at 1.00 times the time of the fastest."
    assert len(findings([replace(run, state="failed") for run in RUNS])) == 2, "nothing to use"


def test_the_deepest_models_count() -> None:
    runs = [*RUNS, *(replace(run, depth="6-6", state="finished") for run in RUNS)]
    assert "At depth 12-12" in findings(runs)[0]


def test_nothing_is_said_of_runs_that_tell_nothing() -> None:
    assert findings([]) == []
    assert findings([replace(RUNS[1], metrics={}, state="running")]) == []
    assert len(findings([replace(run, start=None) for run in RUNS])) == 2


def test_the_best_run_has_finished() -> None:
    best = best_run(RUNS)
    assert best is not None
    assert best.scheme == "b2t"
    assert best_run([RUNS[0]]) is None
