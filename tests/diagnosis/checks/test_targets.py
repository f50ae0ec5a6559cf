"""The check `targets`."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.results import Finding
from support.measurements import fact, findings, line, measurement


def aligned(*shares: float, ignored: float = 0.0, padding: float = 0.0, repeats: bool = True) -> Measurement:
    """The shares at k = −1, 0, 1, 2, 3."""
    facts = [fact("ignored", ignored), fact("padding", padding), fact("same classes", 1.0)]
    return measurement("target-alignment", line(*shares, first=-1), facts=[*facts, fact("repeats", float(repeats))])


def leak(**values: float) -> Measurement:
    return measurement("information-leak", facts=[fact(name.replace("_", " "), each) for name, each in values.items()])


def judged(*measurements: Measurement) -> list[Finding]:
    return findings("targets", measurements)


NEXT = (0.0, 0.0, 1.0, 0.0, 0.0)


def test_a_language_model_that_sees_nothing_it_should_not() -> None:
    (found,) = judged(aligned(*NEXT), leak(later_tokens=0.0, padding=0.0, other_sequences=0.0))
    assert found.severity == "fine"


@pytest.mark.parametrize(("shares", "shift"), [((0, 1, 0, 0, 0), 0), ((0, 0, 0, 1, 0), 2), ((1, 0, 0, 0, 0), -1)])
def test_labels_with_a_wrong_shift(shares: tuple[float, ...], shift: int) -> None:
    (found,) = judged(aligned(*shares))
    assert found.severity == "failure"
    assert f"shifted by {shift} instead of 1" in found.sentence


def test_targets_of_a_masked_model_match_nothing() -> None:
    assert [each.severity for each in judged(aligned(0, 0, 0, 0, 0, ignored=0.85))] == ["fine"]


@pytest.mark.parametrize(("repeats", "severity"), [(True, "warning"), (False, "fine")])
def test_targets_of_other_inputs(repeats: bool, severity: str) -> None:
    """Random tokens and labels, as for a trial, are no fault."""
    assert [each.severity for each in judged(aligned(0.01, 0.02, 0.01, 0, 0, repeats=repeats))] == [severity]


def test_padding_in_the_loss() -> None:
    (found,) = judged(aligned(*NEXT, padding=0.4))
    assert found.severity == "warning"
    assert "are padding" in found.sentence


@pytest.mark.parametrize(
    ("values", "severity", "words"),
    [
        ({"later_tokens": 0.2}, "failure", "causal mask"),
        ({"padding": 0.2}, "warning", "padding is attended"),
        ({"other_sequences": 0.2}, "failure", "mixed up"),
    ],
)
def test_what_outputs_depend_on(values: dict[str, float], severity: str, words: str) -> None:
    (found,) = judged(aligned(*NEXT), leak(**values))
    assert found.severity == severity
    assert words in found.sentence


def test_a_bidirectional_model_may_see_later_tokens() -> None:
    assert [each.severity for each in judged(leak(later_tokens=0.2))] == ["fine"]
