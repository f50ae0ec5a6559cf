"""The page of a replayed step: texts with escapes, and a loss that is compared with the run's."""

from __future__ import annotations

from dataclasses import replace

from lamina.report.pages.replay import compare_loss, example_table, replay_page
from support.replayed import STEP


def test_signs_that_cannot_be_seen_are_shown() -> None:
    table = example_table(STEP)
    assert table.headings == ("example", "source", "reference")
    assert table.rows == (("3", "one\\ttwo\\u200b<b>", "drei"), ("9", "four", "vier\\n"))
    page = replay_page(STEP)
    assert "one\\ttwo\\u200b&lt;b&gt;" in page
    assert "Step 1,250 of own" in replay_page(STEP, "md")


def test_the_loss_is_compared_with_the_runs() -> None:
    assert "same bits" in compare_loss(STEP)
    assert "2.5000000001 in the run's metrics" in compare_loss(replace(STEP, recorded_loss=2.5000000001))
    assert "not compared" in compare_loss(replace(STEP, recorded_loss=None))
    diverged = replace(STEP, update=None, divergence="the loss of step 1250 is not finite, first in the output of head")
    assert compare_loss(diverged) == ""
    assert "first in the output of head" in replay_page(diverged)
