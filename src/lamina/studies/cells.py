"""The cells of a grid: runs that are trained each in a folder of its own, such as one for every scheme and depth."""

from __future__ import annotations

import re
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from lamina import residual
from lamina.errors import UserError
from lamina.run_folder.checkpoints import LATEST
from lamina.run_folder.folder import RunFolder
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run
from lamina.studies.reuse import diagnosis_fingerprint
from lamina.terminal import say
from lamina.training.config import RunConfig

Depth = int | tuple[int, int]
"""The number of layers of each stack, or the numbers of encoder and decoder."""

Schemes = tuple[str, ...]
"""One scheme for all stacks, or the schemes of encoder and decoder if they differ."""

EXTENT = Extent(seeds=2, batches=4, checkpoint=LATEST, depths=False)
"""The extent of the diagnosis of each cell."""


class Cell(Protocol):
    """One run of several."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        ...

    @property
    def config(self) -> RunConfig: ...

    @property
    def is_diagnosed(self) -> bool:
        """Whether it is diagnosed after it was trained."""
        ...


@dataclass(frozen=True)
class GridCell:
    """A run of a comparison."""

    schemes: Schemes
    depth: Depth
    seed: int
    config: RunConfig
    is_diagnosed: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of its folder: `b2t-12-seed1`."""
        return f"{'+'.join(self.schemes)}-{depth_text(self.depth)}-seed{self.seed}"


def make_cells(
    values: Mapping[str, Any],
    schemes: Sequence[str],
    depths: Sequence[Depth | str] = (),
    seeds: int = 1,
    *,
    where: str = "config",
) -> list[GridCell]:
    """All combinations, seed by seed, so that an interrupted comparison has equally many runs of each scheme.

    values: the values of a config, before validation: scheme options need not fit the scheme that the config names.
    where: the start of error messages, such as the file of the config.
    """
    if isinstance(schemes, str):
        raise UserError(f"schemes must be a list of names, not the text {schemes!r}; write [{schemes!r}]")
    if not schemes:
        raise UserError('no scheme is given; name those to compare, as in ["post-ln", "b2t"]')
    if seeds < 1:
        raise UserError(f"seeds is the number of seeds of each scheme, at least 1, not {seeds}")
    names = [read_schemes(name) for name in schemes]
    first = _config(values, where, names[0])
    chosen = [read_depth(depth) for depth in depths] or [_depth_of(first, where)]
    for what, given in (
        ("scheme", ["/".join(each) for each in names]),
        ("depth", [depth_text(depth) for depth in chosen]),
    ):
        repeated = [each for at, each in enumerate(given) if each in given[:at]]
        if repeated:
            raise UserError(f"the {what} {repeated[0]!r} is listed twice; name it once")
    return [
        GridCell(scheme, depth, seed, _config(values, where, scheme, depth, seed))
        for seed in range(first.seed, first.seed + seeds)
        for depth in chosen
        for scheme in names
    ]


def read_schemes(text: str) -> Schemes:
    """`b2t`, or `post-ln/pre-ln` for encoder and decoder."""
    parts = [residual.find(part.strip()).name for part in text.split("/")]
    if len(parts) > 2:
        raise UserError(f"{text!r} names {len(parts)} schemes; write b2t, or post-ln/pre-ln for encoder and decoder")
    return tuple(dict.fromkeys(parts))


def read_depth(depth: Depth | str) -> Depth:
    """`12`, or `60-12` for encoder and decoder."""
    text = depth.strip() if isinstance(depth, str) else depth_text(depth)
    found = re.fullmatch(r"([1-9]\d*)(?:-([1-9]\d*))?", text)
    if not found:
        raise UserError(f"{text!r} is not a depth; write 12, or 60-12 for encoder and decoder")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))


def train_cell(path: Path, *, diagnose: bool = True) -> int:
    """Train the run whose config is in a folder, and diagnose it if asked; returns the exit code of its status.

    Time and memory are added to what earlier attempts took. A run that has ended is only diagnosed.
    """
    run = Run(path)
    measured = diagnosis_fingerprint(run.config, EXTENT)  # of the code as it is now, not after hours of training
    if not _has_ended(run.folder):
        began = time.perf_counter()
        try:
            run.train()
        finally:
            with suppress(UserError):  # an error of the training is more important
                run.folder.add_cost(time.perf_counter() - began, _peak_memory())
    if diagnose and _has_ended(run.folder):
        _diagnose(run)
        run.folder.diagnosed.write(measured)
    status = run.folder.status()
    assert status is not None
    return status.exit_code


def is_done(path: Path, config: RunConfig, *, diagnose: bool = True) -> bool:
    """Whether a run has ended and, if it is to be diagnosed, its diagnoses are up to date."""
    folder = RunFolder(path)
    return _has_ended(folder) and (not diagnose or folder.diagnosed.read() == diagnosis_fingerprint(config, EXTENT))


def _has_ended(folder: RunFolder) -> bool:
    status = folder.status()
    return status is not None and status.has_ended


def _diagnose(run: Run) -> None:
    """Diagnose a run; a model that cannot be measured, because its weights are not finite, is no error."""
    try:
        list(run.diagnose(EXTENT))
    except UserError as error:
        say(f"no diagnosis: {error}", error=True)


def _peak_memory() -> int:
    """The largest resident memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _config(
    values: Mapping[str, Any], where: str, schemes: Schemes, depth: Depth | None = None, seed: int | None = None
) -> RunConfig:
    chosen: dict[str, Any] = {"residual": schemes[0] if len(schemes) == 1 else list(schemes)}
    chosen |= {} if depth is None else {"num_layers": depth}
    model = values.get("model", {})
    changed = dict(values) | ({} if seed is None else {"seed": seed})
    changed["model"] = {**model, **chosen} if isinstance(model, Mapping) else model
    return RunConfig.read(changed, where=f"{where} with {'/'.join(schemes)}")


def _depth_of(config: RunConfig, where: str) -> Depth:
    if config.model.preset is None and "num_layers" not in config.model.model_fields_set:
        raise UserError(f"{where}: no depth is given; set model.num_layers, or compare with --depth 6,12")
    return config.model.num_layers


def depth_text(depth: Depth) -> str:
    """`12`, or `60-12` for encoder and decoder."""
    return str(depth) if isinstance(depth, int) else f"{depth[0]}-{depth[1]}"
