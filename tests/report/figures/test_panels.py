"""Which lines share a panel, their names and styles, for one model and for several."""

from __future__ import annotations

from lamina.diagnosis.measurement import Location, Measurement, Series, Stage
from lamina.report.figures.panels import MeasuredModel, Panel, choose_panels
from lamina.report.figures.style import BLACK, NEUTRAL, model_styles
from support.made_diagnoses import adam_conditioning, description, gradient_along_stream, output_change, stream_norms

STACKS = ("encoder", "decoder")
MATRICES = ("query", "key", "value", "output", "inner", "outer")


def line(quantity: str = "", *, stage: Stage | None = None, y: float = 1.0, **location: str | None) -> Series:
    return Series(location=Location.model_validate(location), quantity=quantity, stage=stage, x=(1.0, 2.0), y=(y, y))


def predicted(of: Series, quantity: str = "", y: float = 2.0, predicts: str = "") -> Series:
    return of.model_copy(update={"quantity": quantity, "role": "predicted", "y": (y, y), "predicts": predicts})


def measurement(*series: Series) -> Measurement:
    return Measurement(about=description("some-measure", "Some measure"), series=series)


def models(**measurements: Measurement) -> list[MeasuredModel]:
    """Models named after their schemes, with `_` for `-`."""
    names = [name.replace("_", "-") for name in measurements]
    styles = model_styles([[name] for name in names])
    return [
        MeasuredModel(name, style, each) for name, style, each in zip(names, styles, measurements.values(), strict=True)
    ]


def names(panels: list[Panel]) -> dict[str, list[str]]:
    return {panel.title: [curve.name for curve in panel.curves] for panel in panels}


def test_one_model_has_a_panel_per_stack_in_its_own_style() -> None:
    (model,) = models(post_ln=gradient_along_stream("post-ln", 3))
    panels = choose_panels([model])
    assert names(panels) == {"encoder": ["post-ln"], "decoder": ["post-ln", "theory: norms alone"]}
    measured, theory = panels[1].curves
    assert measured.style == model.style
    assert theory.style == model.style.of_prediction


def test_the_matrices_of_one_model_are_lines_and_a_prediction_has_the_colour_of_its_line() -> None:
    series = [line(stack=stack, matrix=matrix) for stack in STACKS for matrix in MATRICES]
    theory = predicted(line(stack="decoder", matrix="outer"), "post-LN")
    panels = choose_panels(models(post_ln=measurement(*series, theory)))
    assert names(panels) == {"encoder": list(MATRICES), "decoder": [*MATRICES, "outer, theory: post-LN"]}
    encoder, decoder = ({curve.name: curve.style for curve in panel.curves} for panel in panels)
    assert all(encoder[matrix] == decoder[matrix] for matrix in MATRICES)
    assert len({style.colour for style in encoder.values()}) == 6
    assert decoder["outer, theory: post-LN"] == decoder["outer"].of_prediction


def test_many_parts_of_several_models_are_shown_model_by_model_in_the_same_styles() -> None:
    series = [line(stack=stack, matrix=matrix) for stack in STACKS for matrix in MATRICES]
    panels = choose_panels(models(post_ln=measurement(*series), pre_ln=measurement(*series)))
    titles = ["post-ln, encoder", "post-ln, decoder", "pre-ln, encoder", "pre-ln, decoder"]
    assert [panel.title for panel in panels] == titles
    styles = [[(curve.name, curve.style) for curve in panel.curves] for panel in panels]
    assert styles[0] == styles[1] == styles[2] == styles[3]


def test_few_parts_of_several_models_have_a_panel_each_with_a_line_per_model() -> None:
    post, pre = gradient_along_stream("post-ln", 3), gradient_along_stream("pre-ln", 3)
    panels = choose_panels(models(post_ln=post, pre_ln=pre))
    theory = ["post-ln, theory: norms alone", "pre-ln, theory: norms alone"]
    assert names(panels) == {"encoder": ["post-ln", "pre-ln"], "decoder": ["post-ln", "pre-ln", *theory]}
    _, pre_ln, _, of_pre_ln = panels[1].curves
    assert of_pre_ln.style == pre_ln.style.of_prediction


def test_a_prediction_that_models_share_is_drawn_once_in_the_colour_of_the_text() -> None:
    place = line(stack="encoder")
    one = measurement(place, predicted(place))
    other = measurement(line(stack="encoder", y=3.0), predicted(place))
    (panel,) = choose_panels(models(post_ln=one, pre_ln=other))
    assert [curve.name for curve in panel.curves] == ["post-ln", "pre-ln", "theory"]
    assert panel.curves[-1].style == NEUTRAL.of_prediction
    (panel,) = choose_panels(models(post_ln=one, pre_ln=other, b2t=measurement(place)))
    assert panel.curves[-1].name == "post-ln and pre-ln, theory"
    assert panel.curves[-1].style.colour == BLACK


def test_predictions_and_bounds_stay_with_the_quantity_they_are_about() -> None:
    post, pre = stream_norms("post-ln", 3), stream_norms("pre-ln", 3)
    found = names(choose_panels(models(post_ln=post, pre_ln=pre)))
    assert found["encoder stream"] == ["post-ln", "pre-ln", "pre-ln, bound: at least", "pre-ln, bound: at most"]
    assert found["encoder norm input"] == ["post-ln", "pre-ln", "post-ln, theory: Lemma 2"]
    (encoder, _) = choose_panels(models(post_ln=post))
    assert [curve.name for curve in encoder.curves] == ["stream", "norm input", "norm input, theory: Lemma 2"]
    assert encoder.curves[2].style == encoder.curves[1].style.of_prediction


def test_a_prediction_about_the_whole_model_stands_in_every_panel() -> None:
    still = predicted(line(), "without gradient")
    series = [line(stack=stack) for stack in STACKS]
    expected = {"encoder": ["post-ln", "theory: without gradient"], "decoder": ["post-ln", "theory: without gradient"]}
    panels = choose_panels(models(post_ln=measurement(*series, still)))
    assert names(panels) == expected
    assert panels[0].curves[1].style == NEUTRAL.of_prediction


def test_lines_without_a_stack_share_a_panel_named_by_what_they_have_in_common() -> None:
    assert names(choose_panels(models(b2t=output_change("b2t")))) == {"noise": ["b2t", "theory: line in n"]}
    (panel,) = choose_panels(models(b2t=adam_conditioning()))
    assert panel.title == "b2t"
    assert [curve.name for curve in panel.curves] == [*MATRICES, "theory: without gradient"]


def test_modules_outside_the_stacks_come_last() -> None:
    series = [line(module="embedding"), line(stack="decoder", matrix="query"), line(module="head")]
    panels = choose_panels(models(b2t=measurement(*series)))
    assert names(panels) == {"decoder": ["query"], "other modules": ["embedding", "head"]}
    panels = choose_panels(models(b2t=measurement(*series[:2])))
    assert names(panels) == {"decoder": ["query"], "embedding": ["embedding"]}


def test_further_streams_are_named_and_the_first_keeps_the_models_style() -> None:
    model = models(resi_dual=measurement(line(stack="encoder"), line(stack="encoder", stream="dual")))
    (panel,) = choose_panels(model)
    assert [curve.name for curve in panel.curves] == ["first stream", "stream dual"]
    assert panel.curves[0].style == model[0].style
    assert panel.curves[1].style.colour != model[0].style.colour


def test_many_lines_of_one_stack_have_a_panel_per_quantity() -> None:
    kinds = [(kind, matrix) for kind in (None, "cross-attention") for matrix in MATRICES[:4]]
    series = [
        line(quantity, stack="decoder", sublayer_kind=kind, matrix=matrix)
        for quantity in ("gradient", "update")
        for kind, matrix in kinds
    ]
    panels = choose_panels(models(b2t=measurement(*series)))
    assert [panel.title for panel in panels] == ["decoder gradient", "decoder update"]
    styles = {curve.name: curve.style for curve in panels[0].curves}
    assert list(styles)[3:5] == ["output", "cross-attention query"]
    assert styles["query"].colour == styles["cross-attention query"].colour
    assert styles["query"] != styles["cross-attention query"]


def test_stages_are_lines_for_one_model_and_panels_for_several() -> None:
    stages = (Stage(name="start"), Stage(name="end"))
    both = measurement(*(line(stack="encoder", matrix="outer", stage=stage) for stage in stages))
    assert names(choose_panels(models(b2t=both))) == {"encoder outer": ["at the start", "at the end"]}
    found = names(choose_panels(models(b2t=both, pre_ln=both)))
    assert found == {f"encoder outer at the {name}": ["b2t", "pre-ln"] for name in ("start", "end")}


def test_on_a_page_of_several_models_a_panel_of_one_names_it() -> None:
    (panel, _) = choose_panels(models(resi_dual=gradient_along_stream("resi-dual", 2)), titled=True)
    assert panel.title == "resi-dual, encoder"


def test_predictions_without_a_measured_line_are_shown_all_the_same() -> None:
    assert names(choose_panels(models(b2t=measurement(predicted(line(stack="encoder")))))) == {"encoder": ["theory"]}
