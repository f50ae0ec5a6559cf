"""Observations: flat names for logs, and a file that keeps every number."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lamina.diagnosis.measurement import Location
from lamina.diagnosis.watching.observation import (
    MatrixObservation,
    Observation,
    OutsideBand,
    StreamObservation,
    flat_name,
    read_observations,
    write_observations,
)
from lamina.errors import UserError
from lamina.run_folder.records import ObservationsFile
from support.measurements import fact, measurement


def matrix(location: Location, update: float | None = 0.5) -> MatrixObservation:
    return MatrixObservation(
        location=location, gradient_norm=2.0, update_norm=0.1, relative_update=update, learning_rate=1e-3
    )


QUERY = Location(stack="decoder", layer=3, matrix="query")


def test_flat_names() -> None:
    assert flat_name(QUERY) == "decoder.3.query"
    crossing = QUERY.model_copy(update={"sublayer_kind": "cross-attention"})
    assert flat_name(crossing) == "decoder.3.cross-attention.query"
    assert flat_name(Location(module="target.embedding")) == "target.embedding"


def test_values_for_a_log() -> None:
    stream = StreamObservation(stack="decoder", root_mean_squares=(1.0, math.nan, 3.0), largest=9.0)
    observed = Observation(
        step=5,
        matrices=(matrix(QUERY), matrix(Location(module="embedding"), update=None)),
        streams=(stream,),
        conditioning=measurement("adam-conditioning", facts=[fact("κ", 7.0)]),
        outside=(OutsideBand(location=QUERY, times_usual=3.0),),
    )
    assert observed.values() == {
        "gradient/decoder.3.query": 2.0,
        "gradient/embedding": 2.0,
        "update/decoder.3.query": 0.5,
        "stream/decoder.1": 1.0,
        "stream/decoder.3": 3.0,
        "stream_peak/decoder": 9.0,
        "condition": 7.0,
        "updates_outside": 1.0,
        "spikes": 0.0,
    }
    assert observed.num_updates == 1
    assert "condition" not in Observation(step=1).values()


def test_the_furthest_update_is_the_one_that_differs_most_up_or_down() -> None:
    def furthest(*times: float) -> float:
        outside = tuple(OutsideBand(location=QUERY, times_usual=each) for each in times)
        return Observation(step=1, outside=outside).furthest.times_usual

    assert furthest(3.0, 0.1, 5.0) == 0.1
    assert furthest(3.0, 0.5, 5.0) == 5.0
    assert math.isnan(furthest(1e9, math.nan))


def test_observations_survive_their_file_whatever_was_measured(tmp_path: Path) -> None:
    observed = Observation(
        step=3,
        matrices=(matrix(QUERY).model_copy(update={"gradient_norm": math.inf}), matrix(QUERY, update=None)),
        streams=(StreamObservation(stack="s", root_mean_squares=(1.0, math.nan), largest=math.inf),),
        no_conditioning="SGD is not Adam",
        output_stack="decoder",
        outside=(OutsideBand(location=QUERY, times_usual=math.inf),),
        unstable=True,
    )
    file = ObservationsFile(tmp_path / "observations.json")
    assert read_observations(file, until=3) == []
    write_observations(file, [observed])
    assert str(read_observations(file, until=3)) == str([observed]), "NaN is not equal to itself"
    assert read_observations(file, until=2) == [], "of steps that are trained again nothing is kept"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"version": 1, "looks": []}', r"observations in format 1, but .* reads format 3; the steps watched before"),
        ('{"looks": 1}', "not a file of observations; the steps watched before are left out"),
        ("[", "not a file of observations; the steps watched before are left out"),
        ('{"version": 3, "observations": [{"step": "?"}]}', "damaged; the steps watched before are left out"),
    ],
)
def test_other_files_are_refused_with_the_consequence(content: str, message: str, tmp_path: Path) -> None:
    file = ObservationsFile(tmp_path / "observations.json")
    file.path.write_text(content)
    with pytest.raises(UserError, match=message) as found:
        read_observations(file, until=3)
    assert str(found.value).startswith(str(file.path))
