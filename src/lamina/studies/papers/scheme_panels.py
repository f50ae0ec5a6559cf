"""Panels of a study's figure with one curve for each residual scheme, in the scheme's own colour."""

from __future__ import annotations

from collections.abc import Iterable

from lamina.report.figures.panels import Curve, Panel
from lamina.report.figures.style import scheme_style
from lamina.studies.result_table import Label, ResultTable


def scheme_panel(
    title: str, results: ResultTable, name: str, quantity: str, schemes: Iterable[str], **labels: Label
) -> Panel:
    """The values of a quantity along the label `name`, a curve for each scheme."""
    return Panel(
        title,
        tuple(
            Curve(scheme, results.curve(name, quantity, scheme=scheme, **labels), scheme_style(scheme))
            for scheme in schemes
        ),
    )
