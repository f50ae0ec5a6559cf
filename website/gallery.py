"""The gallery: a page for each residual scheme, an index with filters, and a comparison of any two."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from html import escape
from math import isfinite, log10
from pathlib import Path
from typing import Any

import torch

import lamina
from fingerprints import DEPTHS, MODEL, QUANTITIES, SEEDS, Fingerprint
from formulas import to_mathml, tokens
from lamina import residual
from lamina.residual.base import Residual
from lamina.residual.card import Card, card

EVIDENCE = Path(residual.__file__).parent / "evidence.toml"
RANGES = {"gradient": (-4.0, 1.5), "norm": (-3.0, 3.0), "change": (-3.0, 0.5)}
"""The powers of ten that the figures show, the same for all schemes, so that pages can be compared."""
WIDTH, HEIGHT, LEFT = 300, 180, 34
BENCHMARKS = Path(__file__).parents[1] / "docs" / "benchmarks.md"
PLACEMENTS = {"post": "after the sum", "pre": "before the branch", "both": "both", "none": "none"}
Scheme = type[Residual[Any]]


def write_gallery(folder: Path, measured: Mapping[str, Fingerprint]) -> None:
    """Write all pages of the gallery as Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    evidence = tomllib.loads(EVIDENCE.read_text(encoding="utf-8"))
    base = parameters("post-ln")
    for scheme in residual.schemes():
        page = scheme_page(scheme, card(scheme), measured[scheme.name], evidence[scheme.name], base)
        (folder / f"{scheme.name}.md").write_text(page, encoding="utf-8")
    (folder / "index.md").write_text(index_page(), encoding="utf-8")
    (folder / "diff.md").write_text(diff_page(measured), encoding="utf-8")


def parameters(name: str) -> int:
    """The number of parameters of the iwslt preset under a scheme, 6-6 layers of width 512."""
    with torch.device("meta"):
        model = lamina.Transformer.from_preset("iwslt", residual=name)
    return sum(each.numel() for each in model.parameters())


def measured_costs() -> dict[str, tuple[str, str]]:
    """Time and memory of a training step relative to post-LN, by scheme, from the table of the benchmarks."""
    text = BENCHMARKS.read_text(encoding="utf-8").partition("### Schemes relative to post-LN")[2].partition("\n### ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {name: (time, memory) for name, time, memory in rows if name in residual.names()}


def loop_of(scheme: str) -> str:
    """A program that puts the scheme around modules of one's own; the tests run it for every scheme."""
    calibrate = "stack.calibrate(torch.randn(2, 10, 64))  # on the first training batch\n" if scheme == "admin" else ""
    return f'''import torch
import lamina


def feed_forward():  # a module of your own: the branch, without residual sum and norm
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))


layers = [[feed_forward(), feed_forward()] for _ in range(12)]
roles = {{"*.0": "inner", "*.2": "outer"}}  # what each matrix does, for schemes that scale initial weights
stack = lamina.Stack(layers, model_dim=64, residual="{scheme}", roles=roles, init="xavier")
{calibrate}y = stack(torch.randn(2, 10, 64))
'''


def scheme_page(scheme: Scheme, shown: Card, found: Fingerprint, facts: Mapping[str, Any], base: int) -> str:
    more = parameters(scheme.name) - base
    state = "one tensor per layer" if scheme.grows else f"{len(scheme.streams)}: {', '.join(scheme.streams)}"
    settings = [
        f"- **Norms**: {PLACEMENTS[scheme.placement]}",
        f"- **Streams**: {state}",
        f"- **Folds into post-LN**: {'yes' if scheme.folds else 'no'}",
        f"- **Faults that its paper shows it to avoid or reduce**: {', '.join(sorted(scheme.avoids)) or 'none named'}",
    ]
    parameter_cost = f"{more:+,}".replace("-", "−") if more else "no difference"
    time, memory = measured_costs().get(scheme.name, ("", ""))
    cost = f"{time} of the time and {memory} of the memory of a post-LN step" if time else "see the bounds there"
    options = [f"| `{name}` | `{default}` | {' '.join(meaning.split())} |" for name, default, meaning in shown.options]
    return "\n".join(
        [
            f"# {scheme.name}\n\n{shown.title}\n\n*{shown.citation}*\n",
            "## Equation\n\n" + equations(shown.equation),
            f"## Drawing\n\n```text\n{shown.drawing}\n```\n",
            shown.notes + "\n",
            *settings,
            "\n## Copy the config\n",
            f'```toml\n[model]\nresidual = "{scheme.name}"\n```\n',
            *(["| option | default | |", "| --- | --- | --- |", *options, ""] if options else []),
            "## Paste into your loop\n",
            f"Around your own layers:\n\n```python\n{loop_of(scheme.name)}```\n",
            f"As a plain loop, which the tests compare with the class:\n\n```python\n{shown.reference.rstrip()}\n```\n",
            "## Fingerprint\n",
            f"Measured by this build: {MODEL}, mean over {SEEDS} seeds, before training. Lines: {_legend()}. "
            "Axes are the same on all pages; values outside them are drawn at their edge.\n",
            figures(found),
            value_table(found),
            f"\n**Reproduce this figure**, in {found.seconds:.0f} s by this build:\n\n"
            f"```sh\npython website/fingerprints.py {scheme.name}\n```\n",
            "## Cost beside post-LN\n",
            f"- **Parameters** of the iwslt preset, 6-6 layers of width 512: {parameter_cost}.",
            f"- **Time and memory** of a training step ([benchmarks](../benchmarks.md#schemes-relative-to-post-ln)): "
            f"{'the measure of the others' if scheme.name == 'post-ln' else cost}.\n",
            f"## Initialisation\n\n{facts['initialisation']}\n",
            "## Released models\n\n" + _list(facts["released"]),
            "## Evidence for\n\n" + _list(facts["for"]),
            "## Evidence against\n\n" + _list(facts["against"]),
            f'<a href="diff.html#{scheme.name}">Compare it with another scheme</a>\n',
        ]
    )


def equations(text: str) -> str:
    """The lines of an equation as MathML; the plain text is under it, to be copied."""
    lines = [line for line in text.splitlines() if line.strip()]
    shown = "\n".join(f'<div class="equation">{to_mathml(line.strip())}</div>' for line in lines)
    plain = "\n".join(re.sub(r" {5,}", "    ", line) for line in lines)
    return f"{shown}\n\n```text\n{plain}\n```\n"


def figures(found: Fingerprint) -> str:
    drawn = [draw(name, title, paths(found, name)) for name, title in QUANTITIES.items()]
    return '<div class="fingerprint">\n' + "\n".join(drawn) + "\n</div>\n"


def paths(found: Fingerprint, quantity: str) -> dict[str, str]:
    """The line of each depth as the points of an SVG polyline; x is the position in the stack, from input to output."""
    low, high = RANGES[quantity]
    lines = {}
    for depth, values in found.values[quantity].items():
        points = []
        for number, value in enumerate(values):
            if not isfinite(value):
                continue
            power = min(high, max(low, log10(value) if value > 0 else low))
            x = LEFT + (WIDTH - LEFT - 6) * number / max(1, len(values) - 1)
            points.append(f"{x:.1f},{8 + (HEIGHT - 30) * (high - power) / (high - low):.1f}")
        lines[str(depth)] = " ".join(points)
    return lines


def draw(quantity: str, title: str, lines: Mapping[str, str]) -> str:
    """One figure. Colours come from the style sheet, so that it fits a light and a dark page."""
    low, high = RANGES[quantity]
    grid = []
    for power in range(int(low), int(high) + 1):
        y = 8 + (HEIGHT - 30) * (high - power) / (high - low)
        label = {0: "1", 1: "10", -1: "0.1"}.get(power, f"10<tspan dy='-4' font-size='7'>{power}</tspan>")
        grid.append(f'<line x1="{LEFT}" x2="{WIDTH - 6}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        grid.append(f'<text x="{LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{label}</text>')
    curves = [
        f'<polyline class="depth-{depth}" points="{points}"><title>{depth} layers</title></polyline>'
        for depth, points in lines.items()
    ]
    axis = f'<text x="{LEFT}" y="{HEIGHT - 6}">input</text>'
    axis += f'<text x="{WIDTH - 6}" y="{HEIGHT - 6}" text-anchor="end">output</text>'
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" data-quantity="{quantity}">'
        f"{''.join(grid)}{axis}<g>{''.join(curves)}</g></svg></figure>"
    )


def value_table(found: Fingerprint) -> str:
    rows = ["| | layers | first | middle | last |", "| --- | --- | --- | --- | --- |"]
    for quantity, title in QUANTITIES.items():
        for depth, values in found.values[quantity].items():
            chosen = (values[0], values[len(values) // 2], values[-1])
            shown = [f"{value:.3g}" if isfinite(value) else "–" for value in chosen]
            rows.append(f"| {title} | {depth} | " + " | ".join(shown) + " |")
    if "–" in "".join(rows):
        rows.append("\n–: the matrices of the last layer have no gradient before the first update.")
    return "\n".join(rows) + "\n"


def index_page() -> str:
    filters = {
        "norms": [(key, PLACEMENTS[key]) for key in PLACEMENTS],
        "streams": [("one", "one"), ("several", "several")],
        "folds": [("yes", "into post-LN")],
        "avoids": [(each, each) for each in sorted({fault for one in residual.schemes() for fault in one.avoids})],
    }
    choices = "".join(
        f"<fieldset><legend>{name}</legend>"
        + "".join(f'<label><input type="checkbox" name="{name}" value="{key}">{text}</label>' for key, text in options)
        + "</fieldset>"
        for name, options in filters.items()
    )
    cards = "\n".join(_index_card(scheme, card(scheme)) for scheme in residual.schemes())
    return (
        "# Gallery of residual schemes\n\nA residual scheme decides what each sub-layer reads, and how its output "
        "changes the residual stream. Every page below is made from the scheme's file and measured by this build; "
        f'[any two can be compared](diff.md).\n\n<form class="filters" hidden>{choices}</form>\n\n'
        f'<div class="schemes">\n{cards}\n</div>\n'
    )


def _index_card(scheme: Scheme, shown: Card) -> str:
    first = next(line for line in shown.equation.splitlines() if line.strip())
    several = "several" if len(scheme.streams) > 1 or scheme.grows else "one"
    return (
        f'<a class="scheme" href="{scheme.name}.html" data-norms="{scheme.placement}" data-streams="{several}" '
        f'data-folds="{"yes" if scheme.folds else "no"}" data-avoids="{" ".join(sorted(scheme.avoids))}">'
        f"<strong>{scheme.name}</strong>{to_mathml(first.split('    ')[0].strip())}"
        f"<span>{escape(shown.title)}</span></a>"
    )


def diff_page(measured: Mapping[str, Fingerprint]) -> str:
    data = {
        scheme.name: {
            "equation": [tokens(line.strip()) for line in card(scheme).equation.splitlines() if line.strip()],
            "lines": {quantity: paths(measured[scheme.name], quantity) for quantity in QUANTITIES},
        }
        for scheme in residual.schemes()
    }
    chosen = "".join(f"<option>{name}</option>" for name in data)
    depths = "".join(f"<option{' selected' if depth == 18 else ''}>{depth}</option>" for depth in DEPTHS)
    frames = "\n".join(draw(name, title, {}) for name, title in QUANTITIES.items())
    packed = json.dumps(data, ensure_ascii=False).replace("</", "<\\/")
    return (
        "# Compare two schemes\n\n"
        "<noscript>This page needs a script. Each scheme's own page has the same figures and axes.</noscript>\n"
        f'<div class="diff"><p><label>first <select id="scheme-a">{chosen}</select></label> '
        f'<label>second <select id="scheme-b">{chosen}</select></label> '
        f'<label>layers <select id="depth">{depths}</select></label></p>\n'
        '<div class="pair"><div><a id="link-a"></a><div id="equation-a"></div></div>'
        '<div><a id="link-b"></a><div id="equation-b"></div></div></div>\n'
        '<p>Terms that only one of them has are <span class="changed">marked</span>. Solid: the first; dashed: the '
        f"second. Measured before training: {MODEL}, mean over {SEEDS} seeds.</p>\n"
        f'<div class="fingerprint">\n{frames}\n</div></div>\n\n'
        f'<script type="application/json" id="scheme-data">{packed}</script>\n'
    )


def _legend() -> str:
    return ", ".join(f'<span class="key depth-{depth}">{depth} layers</span>' for depth in DEPTHS)


def _list(entries: list[str]) -> str:
    return "".join(f"- {entry}\n" for entry in entries) or "None known to us.\n"
