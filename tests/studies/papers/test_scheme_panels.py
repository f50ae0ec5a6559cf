"""Panels with one curve for each scheme."""

from __future__ import annotations

from lamina.report.figures.style import scheme_style
from lamina.studies.papers.scheme_panels import scheme_panel
from lamina.studies.result_table import ResultTable
from support.made_results import rows


def test_each_scheme_has_a_curve_in_its_own_colour() -> None:
    table = ResultTable(
        row
        for scheme, size in (("post-ln", 2.0), ("pre-ln", 1.0))
        for layer in (1, 2)
        for row in rows("gradient", size * layer, scheme=scheme, layer=layer, stack="decoder")
    )
    panel = scheme_panel("b", table, "layer", "gradient", ("pre-ln", "post-ln"), stack="decoder")
    assert [curve.name for curve in panel.curves] == ["pre-ln", "post-ln"]
    assert panel.curves[1].series.y == (2.0, 4.0)
    assert panel.curves[1].style == scheme_style("post-ln")
