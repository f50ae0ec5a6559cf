"""Sections: which measurements share one, and how their maps are arranged."""

from __future__ import annotations

from lamina.diagnosis.measurement import Measurement
from lamina.report.figures.section import figure_sections
from support.made_diagnoses import adam_conditioning, cosine_of_layers, description, stream_norms


def arranged(*models: tuple[str, Measurement]) -> dict[str, list[str]]:
    """The titles of the maps of the last section, by heading."""
    section = figure_sections([(name, (name,), [each]) for name, each in models])[-1]
    return {heading: [title for title, _ in group] for heading, group in section.maps.items()}


def test_maps_of_one_model_stand_side_by_side() -> None:
    assert arranged(("b2t", cosine_of_layers("b2t", 3))) == {"": ["encoder", "decoder"]}


def test_maps_of_one_part_of_several_models_stand_side_by_side() -> None:
    models = [(name, cosine_of_layers(name, 3)) for name in ("b2t", "pre-ln")]
    assert arranged(*models) == {"encoder": ["b2t", "pre-ln"], "decoder": ["b2t", "pre-ln"]}


def test_maps_of_one_model_on_a_page_of_several_are_headed_by_its_name() -> None:
    models = [("b2t", stream_norms("b2t", 3)), ("pre-ln", cosine_of_layers("pre-ln", 3))]
    assert arranged(*models) == {"pre-ln": ["encoder", "decoder"]}


def test_one_measure_on_different_axes_has_a_section_for_each() -> None:
    by_step, by_layer = adam_conditioning(), adam_conditioning()
    about = description("adam-conditioning", "Conditioning of Adam", "layer", "κ")
    by_layer = by_layer.model_copy(update={"about": about})
    sections = figure_sections([("b2t", ("b2t",), [by_step]), ("pre-ln", ("pre-ln",), [by_layer, by_layer])])
    assert [section.about.axes.x for section in sections] == ["step", "layer"]
    assert len({section.anchor for section in sections}) == 2
