"""A model at several moments, such as the start and the end of its training, shown as one."""

from __future__ import annotations

from collections.abc import Mapping

from lamina.diagnosis.results import Diagnosis, Measure

SHOWN = {
    "gradient-by-layer": " outer",
    "gradient-along-stream": "",
    "gradient-when-moved": "",
    "layer-dependency": "",
    "cosine-of-layers": "",
}
"""What is worth a picture here, and the ending of its lines that are; a page of its own has the rest of a diagnosis."""
PARTS = ("measured", "theory", "grids")
NUMBERS = ("facts", "fact_spreads")


def joined(moments: Mapping[str, Diagnosis]) -> list[Measure]:
    """Each quantity once, its lines and maps named after their moment."""
    found: dict[str, Measure] = {}
    for when, diagnosis in moments.items():
        for measure in diagnosis.measures:
            if measure.key in SHOWN:
                named = _named(_main_lines(measure, SHOWN[measure.key]), when)
                if earlier := found.get(measure.key):
                    parts = {part: (*getattr(earlier, part), *getattr(named, part)) for part in PARTS}
                    numbers = {kind: getattr(earlier, kind) | getattr(named, kind) for kind in NUMBERS}
                    named = earlier.model_copy(update=parts | numbers)
                found[measure.key] = named
    return list(found.values())


def _main_lines(measure: Measure, ending: str) -> Measure:
    """The lines with that ending, where there are such, and what belongs to them."""
    names = tuple(each.label for each in measure.measured if ending and each.label.endswith(ending))
    if not names:
        return measure
    parts = {part: tuple(each for each in getattr(measure, part) if each.label.startswith(names)) for part in PARTS}
    numbers = {
        kind: {name: each for name, each in getattr(measure, kind).items() if name.startswith(names)}
        for kind in NUMBERS
    }
    return measure.model_copy(update=parts | numbers)


def _named(measure: Measure, when: str) -> Measure:
    """`encoder` becomes `encoder at the start`, and its prediction `encoder at the start in theory`."""
    names = [each.label for each in measure.measured]

    def renamed(label: str) -> str:
        of = max((name for name in names if label.startswith(name)), key=len, default=label)
        return f"{of} {when}{label[len(of) :]}"

    parts = {
        part: tuple(each.model_copy(update={"label": renamed(each.label)}) for each in getattr(measure, part))
        for part in PARTS
    }
    numbers = {kind: {f"{name} {when}": each for name, each in getattr(measure, kind).items()} for kind in NUMBERS}
    return measure.model_copy(update=parts | numbers)
