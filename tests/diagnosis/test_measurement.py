"""The values of a measure: how they are selected, and how locations and stages read."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Fact, Location, Series, Stage
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer

MEASUREMENT = GradientByLayer().measurement(
    [
        Series(location=Location(stack="encoder", matrix="query"), x=(1, 2), y=(1.0, 2.0)),
        Series(location=Location(stack="decoder", matrix="query"), x=(1,), y=(3.0,)),
        Series(
            location=Location(stack="decoder", matrix="query"), quantity="post-LN", role="predicted", x=(1,), y=(2,)
        ),
    ],
    facts=[
        Fact(name="slope", location=Location(stack=stack), value=value) for stack, value in (("a", 1.0), ("b", 2.0))
    ],
)


def test_series_and_facts_are_selected_by_fields() -> None:
    assert [each.y for each in MEASUREMENT.select(stack="decoder")] == [(3.0,)]
    assert [each.y for each in MEASUREMENT.select(role="predicted", quantity="post-LN", matrix="query")] == [(2.0,)]
    assert len(MEASUREMENT.select(matrix="query")) == 2
    assert MEASUREMENT.fact("slope", stack="b") == 2.0
    assert MEASUREMENT.fact("slope") is None, "there are two"
    assert MEASUREMENT.fact("power") is None


@pytest.mark.parametrize(
    ("location", "text"),
    [
        (Location(), "the model"),
        (
            Location(stack="decoder", layer=3, sublayer_kind="cross-attention", matrix="key"),
            "decoder layer 3 cross-attention key",
        ),
        (Location(stack="stack", sublayer=2, stream="dual"), "stack sub-layer 2 stream dual"),
        (Location(module="embeddings.source"), "embeddings.source"),
    ],
)
def test_locations_in_words(location: Location, text: str) -> None:
    assert str(location) == text


def test_stages_in_words() -> None:
    stages = [Stage(name="start"), Stage(name="given"), Stage(name="end"), Stage(name="step", step=1200)]
    assert [str(each) for each in stages] == ["at the start", "as given", "at the end", "after 1,200 steps"]
