"""The outcome: the order of candidates, ties, and the sentences."""

from __future__ import annotations

from lamina.studies.advice.outcome import best_of, describe
from lamina.studies.samples import Sample
from support.made_advice import advice_of, made


def test_the_lowest_mean_is_advised_if_it_is_better_with_every_seed() -> None:
    advice = advice_of(made("pre-ln", 0, 2.0, 2.2), made("b2t", 1, 1.8, 2.1))
    assert advice.chosen.candidate.schemes == ("b2t",)
    said = advice.sentences()
    assert "Use b2t, 6 layers of width 64, 0.001: validation loss 1.95 (1.8 to 2.1) after 90 steps (2 seeds)" in said[0]
    assert "With every seed it is better than the runner-up, pre-ln" in said[1]
    assert any("The config as it is: validation loss 2.1" in each for each in said)


def test_a_tie_says_so_and_takes_the_one_that_changes_less() -> None:
    advice = advice_of(made("pre-ln", 0, 2.0, 2.2), made("b2t", 1, 1.5, 2.3))
    assert [each.candidate.schemes[0] for each in advice.tied] == ["b2t", "pre-ln"]
    assert advice.chosen.candidate.schemes == ("pre-ln",)
    assert "tied with b2t" in advice.sentences()[1]


def test_failed_ruled_out_and_untried_candidates_come_last_and_are_described() -> None:
    failed, ruled_out, untried = made("admin", 1, 1.0, 1.0), made("post-ln", 1), made("resi-dual", 1)
    failed.failed, ruled_out.ruled_out = "the loss is not finite", "the gradient vanishes"
    given_up = made("dlcl", 1)
    given_up.losses = {10: Sample({1: 1.0})}
    advice = advice_of(untried, ruled_out, failed, given_up, made("pre-ln", 0, 2.0, 2.0))
    order = [each.candidate.schemes[0] for each in advice.outcomes]
    assert order == ["pre-ln", "dlcl", "admin", "post-ln", "resi-dual"], "one that got further is better"
    assert [each.candidate.schemes[0] for each in advice.finalists] == ["pre-ln"]
    said = [describe(each) for each in advice.outcomes]
    assert said[0] == "validation loss 2 (2 to 2) after 90 steps"
    assert said[2:] == [
        "failed: the loss is not finite",
        "ruled out: the gradient vanishes",
        "not tried: the budget did not suffice",
    ]


def test_a_learning_rate_at_an_end_of_the_range_is_said() -> None:
    high, low = made("pre-ln", 1, 1.0, 1.0, rate=1e-2), made("pre-ln", 0, 2.0, 2.0, rate=1e-3)
    assert any("the highest that was compared" in each for each in advice_of(high, low).sentences())
    middle = made("pre-ln", 1, 0.5, 0.5, rate=3e-3)
    assert not any("that was compared;" in each for each in advice_of(high, low, middle).sentences())


def test_the_best_of_some_losses() -> None:
    assert best_of({"a": 3.0, "b": 1.0, "c": 2.0}, 2) == ["b", "c"]
