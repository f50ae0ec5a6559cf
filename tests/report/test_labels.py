"""Names made from typed fields."""

from __future__ import annotations

import pytest

from lamina.diagnosis.measurement import Fact, Location, Series, Stage
from lamina.diagnosis.results import Action, Code, Diagnosis, Remedy, SchemeTrait, Setting
from lamina.report.labels import (
    conditions,
    depth_name,
    distinct_names,
    fact_name,
    name_of,
    prediction_name,
    remedy_text,
    scheme_name,
)

POINTS = {"x": (1.0,), "y": (1.0,)}


@pytest.mark.parametrize(
    ("location", "quantity", "stage", "name"),
    [
        (Location(), "", None, ""),
        (Location(stack="decoder", matrix="outer"), "", Stage(name="start"), "decoder outer at the start"),
        (
            Location(stack="decoder", sublayer_kind="cross-attention", matrix="key"),
            "update",
            None,
            "decoder cross-attention key update",
        ),
        (Location(stack="encoder", stream="dual"), "", None, "encoder stream dual"),
        (Location(stack="encoder", stream="x"), "through", None, "encoder through x"),
        (
            Location(stack="stack", layer=3, sublayer=5),
            "",
            Stage(name="step", step=1000),
            "stack layer 3 sub-layer 5 after 1,000 steps",
        ),
        (Location(module="tables.source"), "", None, "tables.source"),
    ],
)
def test_names_of_parts(location: Location, quantity: str, stage: Stage | None, name: str) -> None:
    assert name_of(Series(location=location, quantity=quantity, stage=stage, **POINTS)) == name


def test_a_name_of_some_fields() -> None:
    series = Series(location=Location(stack="decoder", matrix="outer"), quantity="update", **POINTS)
    assert name_of(series, ["matrix"]) == "outer"


def test_names_of_predictions_and_facts() -> None:
    prediction = Series(quantity="post-LN", role="predicted", **POINTS)
    assert prediction_name(prediction, "outer") == "outer, theory: post-LN"
    assert prediction_name(prediction.model_copy(update={"quantity": "", "role": "bound"})) == "bound"
    fact = Fact(name="R² of n", quantity="noise", value=1.0)
    assert fact_name(fact) == "noise R² of n"
    place = Location(stack="encoder")
    assert fact_name(Fact(name="slope", location=place, stage=Stage(name="end"), value=1.0)) == (
        "encoder slope, at the end"
    )


def test_names_of_schemes_and_depths() -> None:
    assert [scheme_name(each) for each in (("b2t",), ("b2t", "b2t"), ("post-ln", "pre-ln"))] == [
        "b2t",
        "b2t",
        "post-ln/pre-ln",
    ]
    assert [depth_name(each) for each in ((12,), (60, 12))] == ["12", "60-12"]


def diagnosis(name: str = "m", **fields: object) -> Diagnosis:
    return Diagnosis.model_validate({"name": name, "model": "", "stage": {"name": "start"}} | fields)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"repeats": 5}, "at the start, mean and standard deviation over 5 seeds"),
        (
            {"stage": {"name": "given"}, "spread_over": "batches", "repeats": 2},
            "as given, mean and standard deviation over 2 batches",
        ),
        ({"stage": {"name": "step", "step": 2000}, "spread_over": "batches"}, "after 2,000 steps, on 1 batch"),
        (
            {"stage": {"name": "step", "step": 30}, "spread_over": "steps", "repeats": 10},
            "watched at 10 steps, last at step 30",
        ),
        ({"spread_over": "steps"}, "not watched at any step"),
    ],
)
def test_conditions_of_a_diagnosis(fields: dict[str, object], text: str) -> None:
    assert conditions(diagnosis(**fields)) == text


def test_names_of_models_differ() -> None:
    step = {"stage": {"name": "step", "step": 500}}
    assert distinct_names([diagnosis("a"), diagnosis("b", **step)]) == ["a", "b"]
    watched = diagnosis("a", spread_over="steps", **step)
    given = diagnosis("a", stage={"name": "given"})
    several = [diagnosis("a"), diagnosis("a", **step), diagnosis("a", **step), watched, given]
    assert distinct_names(several) == [
        "a at the start",
        "a after 500 steps",
        "a after 500 steps (2)",
        "a during training",
        "a",
    ]


@pytest.mark.parametrize(
    ("remedy", "own", "foreign"),
    [
        (
            Setting(key="schedule.learning_rate", relation="<", value=3e-4),
            "schedule.learning_rate < 3e-4",
            "a learning rate of at most 3e-4: torch.optim.AdamW(model.parameters(), lr=3e-4)",
        ),
        (
            Setting(key="optimiser.betas", value=(0.9, 0.95)),
            "optimiser.betas = [0.9, 0.95]",
            "torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))",
        ),
        (
            Setting(key="train.precision", value="bf16"),
            'train.precision = "bf16"',
            "torch.autocast(device, dtype=torch.bfloat16)",
        ),
        (Setting(key="other.key", value=3), "other.key = 3", "other.key = 3"),
        (
            Setting(key="optimiser.eps", relation="<", value=1e-10),
            "optimiser.eps < 1e-10",
            "an ε of at most 1e-10: torch.optim.AdamW(model.parameters(), eps=1e-10)",
        ),
        (
            Setting(key="optimiser.weight_decay", relation="<", value=0.1),
            "optimiser.weight_decay < 0.1",
            "a weight decay of at most 0.1: torch.optim.AdamW(model.parameters(), weight_decay=0.1)",
        ),
        (Code(line="model.requires_grad_()"), "model.requires_grad_()", "model.requires_grad_()"),
        (Code(line="scale()", words="before it"), "before it: scale()", "before it: scale()"),
        (
            SchemeTrait(avoids="vanishing", schemes=("b2t", "pre-ln", "resi-dual")),
            'model.residual = "b2t", "pre-ln" or "resi-dual"',
            'another residual scheme; for Hugging Face models lamina.rewire(model, "b2t"), "pre-ln" or "resi-dual"',
        ),
        (
            SchemeTrait(avoids="vanishing", schemes=("b2t",)),
            'model.residual = "b2t"',
            'another residual scheme; for Hugging Face models lamina.rewire(model, "b2t")',
        ),
        (
            SchemeTrait(avoids="vanishing", schemes=()),
            "a residual scheme that avoids it; none is installed",
            "a residual scheme that avoids it; none is installed",
        ),
        (Action(text="lengthen the warm-up"), "lengthen the warm-up", "lengthen the warm-up"),
    ],
)
def test_remedies_are_printed_as_lines_of_a_config(remedy: Remedy, own: str, foreign: str) -> None:
    assert str(remedy_text(remedy, own_model=True)) == own
    assert str(remedy_text(remedy, own_model=False)) == foreign
