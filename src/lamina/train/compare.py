"""The same model and data under several residual schemes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lamina import residual
from lamina.errors import UserError
from lamina.train.runs import read_config, train


def compare_schemes(config: str, words: Sequence[str], names: Sequence[str], folder: Path) -> list[Path]:
    """Train one run per scheme, one after the other; the run folders. Finished runs are kept as they are."""
    schemes = [residual.find(name.strip()).name for name in names]
    twice = [name for at, name in enumerate(schemes) if name in schemes[:at]]
    if twice:
        raise UserError(f"the scheme {twice[0]!r} is listed twice")
    paths = []
    for scheme in schemes:
        path = folder / scheme
        train(read_config(config, [*words, f"model.residual={scheme}"]), path)
        paths.append(path)
    return paths
