"""The cells of a comparison: one run for every scheme, depth and seed, each with a folder of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lamina import residual
from lamina.errors import UserError
from lamina.runs.run import read_config
from lamina.training.config import RunConfig

Depth = int | tuple[int, int]


@dataclass(frozen=True)
class Cell:
    """One run of a comparison."""

    scheme: str
    """`b2t`, or `post-ln/pre-ln` where encoder and decoder differ."""
    depth: Depth
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        """As its folder is called: `b2t-12-seed1`."""
        return f"{self.scheme.replace('/', '+')}-{show_depth(self.depth)}-seed{self.seed}"


def make_cells(
    file: str | Path, words: Sequence[str], schemes: Sequence[str], depths: Sequence[str] = (), seeds: int = 1
) -> list[Cell]:
    """All combinations, seed by seed, so that a comparison cut short is even."""
    base = read_config(file, list(words))
    names = [read_scheme(name) for name in schemes]
    chosen = [read_depth(depth) for depth in depths] or [_depth_of(base, file)]
    for what, values in (("scheme", names), ("depth", [show_depth(depth) for depth in chosen])):
        twice = [value for at, value in enumerate(values) if value in values[:at]]
        if twice:
            raise UserError(f"the {what} {twice[0]!r} is listed twice")
    return [
        Cell(scheme, depth, base.seed + number, _config(file, words, scheme, depth, base.seed + number))
        for number in range(seeds)
        for depth in chosen
        for scheme in names
    ]


def read_scheme(text: str) -> str:
    """`b2t`, or `post-ln/pre-ln` for encoder and decoder."""
    parts = [residual.find(part.strip()).name for part in text.split("/")]
    if len(parts) > 2:
        raise UserError(f"{text!r} names {len(parts)} schemes; write b2t, or post-ln/pre-ln for encoder and decoder")
    return "/".join(dict.fromkeys(parts))


def read_depth(text: str) -> Depth:
    """`12`, or `60-12` for encoder and decoder."""
    found = re.fullmatch(r"([1-9]\d*)(?:-([1-9]\d*))?", text.strip())
    if not found:
        raise UserError(f"{text!r} is not a depth; write 12, or 60-12 for encoder and decoder")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))


def show_depth(depth: Depth) -> str:
    return str(depth) if isinstance(depth, int) else f"{depth[0]}-{depth[1]}"


def _config(file: str | Path, words: Sequence[str], scheme: str, depth: Depth, seed: int) -> RunConfig:
    layers = depth if isinstance(depth, int) else list(depth)
    residuals = scheme if "/" not in scheme else json.dumps(scheme.split("/"))
    return read_config(file, [*words, f"model.residual={residuals}", f"model.num_layers={layers}", f"seed={seed}"])


def _depth_of(config: RunConfig, file: str | Path) -> Depth:
    if config.model.preset is None and "num_layers" not in config.model.model_fields_set:
        raise UserError(f"{file}: no depth is given; set model.num_layers, or compare with --depth 6,12")
    return config.model.num_layers
