from __future__ import annotations

import math
from pathlib import Path

import pytest

from lamina.diagnosis.measurement import Fact, Grid, Location, NotMeasured, Series, Stage
from lamina.diagnosis.measures.gradient_by_layer import GradientByLayer
from lamina.diagnosis.results import Action, Diagnosis, Finding, SchemeTrait, Setting, read_diagnoses
from lamina.errors import UserError

MEASUREMENT = GradientByLayer().measurement(
    [
        Series(location=Location(stack="encoder", matrix="query"), x=(1, 2), y=(1.0, math.inf), spread=(0.1, math.nan)),
        Series(location=Location(stack="decoder", matrix="query"), x=(1,), y=(3.0,)),
        Series(
            location=Location(stack="decoder", matrix="query"), quantity="post-LN", role="predicted", x=(1,), y=(2,)
        ),
    ],
    grids=[Grid(values=((1.0, math.nan),), rows="layer", columns="layer")],
    facts=[
        Fact(name="slope", location=Location(stack=stack), value=value) for stack, value in (("a", 1.0), ("b", 2.0))
    ],
)
DIAGNOSIS = Diagnosis(
    name="x",
    model="a model",
    stage=Stage(name="step", step=4),
    measurements=(MEASUREMENT,),
    not_measured=(NotMeasured(key="added-block", reason="it is foreign"),),
    findings=(
        Finding(
            check="vanishing",
            severity="warning",
            sentence="it vanishes",
            value=math.nan,
            remedies=(
                Setting(key="schedule.learning_rate", relation="<", value=3e-4),
                SchemeTrait(avoids="vanishing", schemes=("b2t",)),
                Action(text="use fewer layers"),
            ),
        ),
    ),
)


def test_a_file_keeps_every_number(tmp_path: Path) -> None:
    DIAGNOSIS.write(tmp_path / "one.json")
    found = Diagnosis.read(tmp_path / "one.json")
    assert found.model_dump_json() == DIAGNOSIS.model_dump_json(), "infinities and NaN among them"
    text = DIAGNOSIS.model_dump_json()
    (tmp_path / "two.json").write_text(f"[{text}, {text}]")
    assert len(read_diagnoses(tmp_path / "two.json")) == 2
    with pytest.raises(UserError, match="holds 2 diagnoses, not one"):
        Diagnosis.read(tmp_path / "two.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a diagnosis"),
        ("[]x", "not a diagnosis"),
        ("[1]", "not a diagnosis"),
        ('{"version": 2, "observations": []}', "not a diagnosis"),
        ('{"version": 1, "name": "x"}', "in format 1, but this version of Lamina reads format 2: make it again with"),
        ('{"version": 2, "name": "x"}', "a damaged diagnosis; make it again with lamina diagnose"),
    ],
)
def test_other_files_are_refused_with_the_way_out(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read_diagnoses(tmp_path / "other.json")


def test_what_was_not_measured_says_why() -> None:
    assert DIAGNOSIS["gradient-by-layer"] is MEASUREMENT
    with pytest.raises(UserError, match="added-block was not measured: it is foreign"):
        DIAGNOSIS["added-block"]
    with pytest.raises(UserError, match="nothing was not measured; there are: gradient-by-layer"):
        DIAGNOSIS["nothing"]
