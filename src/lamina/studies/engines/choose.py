"""The engines by name: `local`, `ray` and `slurm`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from lamina.errors import unknown
from lamina.studies.engines import Engine

EngineName = Literal["local", "ray", "slurm"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
OpenEngine = Callable[[], Engine]
"""Makes an engine, which is shut down after the runs that it was made for."""


def choose_engine(name: str, folder: Path, *, threads: int = 1, gpus: int = 0) -> OpenEngine | None:
    """The function that makes the engine of this name; None for `local`, whose size depends on the runs.

    folder: for files of the engine.
    threads, gpus: the resources of every run on a cluster.
    """
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    if name == "local":
        return None

    def open_engine() -> Engine:
        if name == "ray":
            from lamina.studies.engines.ray import RayEngine

            return RayEngine(threads, gpus)
        from lamina.studies.engines.slurm import SlurmEngine

        return SlurmEngine(folder / "slurm", threads, gpus)

    return open_engine
