"""The check `structure`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lamina.diagnosis.results import Finding
from support.measurements import fact, findings, line, measurement

TWO, NONE = (2.0,) * 5, (0.0,) * 5
CLASSES = measurement("initial-loss", facts=[fact("loss", 5.0)])


def judged(
    sums: Sequence[float] = TWO,
    norms: Sequence[float] = TWO,
    repeated: Sequence[float] = NONE,
    *,
    final: float = 1.0,
    share: float = 1.0,
) -> list[Finding]:
    lines = {"residual sums": sums, "norms": norms, "stream added to itself": repeated}
    series = [line(*y, stack="stack", quantity=quantity) for quantity, y in lines.items()]
    facts = [fact("final norm", final, stack="stack"), fact("pre-norm", 1.0, stack="stack")]
    facts.append(fact("input ÷ branches", share, stack="stack"))
    return findings("structure", [measurement("layer-structure", *series, facts=facts), CLASSES])


def test_layers_that_are_alike() -> None:
    assert [each.severity for each in judged()] == ["fine"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sums": (2.0, 2.0, 1.0, 2.0, 2.0)}, "has 1 residual sums, the others 2"),
        ({"norms": (2.0, 2.0, 1.0, 2.0, 2.0)}, "has 1 norms, the others 2"),
        ({"repeated": (0.0, 0.0, 1.0, 0.0, 0.0)}, "adds the residual stream to itself"),
    ],
)
def test_the_layer_that_differs_is_named(given: dict[str, Sequence[float]], words: str) -> None:
    (found,) = judged(**given)  # type: ignore[arg-type]
    assert (found.severity, found.location.layer) == ("warning", 3)
    assert words in found.sentence


def test_hybrid_stacks_have_layers_of_several_kinds() -> None:
    """Where a minority differs, it is named; where there are two kinds of layers, nothing is said."""
    assert [each.severity for each in judged(sums=(2.0, 1.0, 2.0, 1.0), norms=(1.0, 2.0, 1.0, 2.0))] == ["fine"]


def test_a_final_norm_that_is_missing_and_embeddings_that_are_too_large() -> None:
    (found,) = judged(final=0.0)
    assert "no norm follows the last layer" in found.sentence
    (found,) = judged(share=40.0)
    assert "40 times as large as all its branches" in found.sentence
