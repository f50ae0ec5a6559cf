"""Job files for other systems: a Snakefile, or tasks of SkyPilot. They are written and nothing is run.

Every job trains one run, whose folder has its config already; jobs may run in any order. Afterwards the command that
wrote the files is given again without `--emit`: it finds the runs trained.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from lamina.errors import unknown
from lamina.files.atomic import write_file
from lamina.run_folder.folder import RunFolder

EmitKind = Literal["snakemake", "skypilot"]
KINDS: tuple[EmitKind, ...] = get_args(EmitKind)


def emit_jobs(kind: str, runs: Sequence[Path], folder: Path, *, threads: int = 1, gpus: int = 0) -> list[Path]:
    """Write the job files into `folder`; returns them, what is to be started first."""
    if kind not in KINDS:
        raise unknown("kind of job file", kind, KINDS)
    texts = _snakefile(runs, threads, gpus) if kind == "snakemake" else _sky_tasks(runs, threads, gpus)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_file(folder / name, text.encode())
    return [folder / name for name in texts]


def _command(run: Path, threads: int) -> str:
    return f"python -m lamina.studies.worker {shlex.quote(str(run.resolve()))} --threads {threads} --alone"


def _snakefile(runs: Sequence[Path], threads: int, gpus: int) -> dict[str, str]:
    """One rule for each run. A run that diverged is a result (exit code 3)."""
    lines = ["rule all:", f"    input: {json.dumps([str(_done(run)) for run in runs])}", ""]
    for number, run in enumerate(runs, start=1):
        lines += [
            f"rule run_{number}:",
            f"    output: touch({json.dumps(str(_done(run)))})",
            f"    threads: {threads}",
            f"    resources: gpus={gpus}",
            f"    shell: {json.dumps(_command(run, threads) + ' || [ $? -eq 3 ]')}",
            "",
        ]
    return {"Snakefile": "\n".join(lines)}


def _done(run: Path) -> Path:
    return RunFolder(run.resolve()).path / "ended"


def _sky_tasks(runs: Sequence[Path], threads: int, gpus: int) -> dict[str, str]:
    """One task for each run, and a script that launches all of them. JSON is YAML."""
    resources = {"cpus": f"{threads}+", **({"accelerators": {"A100": gpus}} if gpus else {})}
    tasks = {
        f"{run.name}.yaml": json.dumps(
            {"name": run.name.lower(), "resources": resources, "run": _command(run, threads) + " || [ $? -eq 3 ]"},
            indent=2,
        )
        + "\n"
        for run in runs
    }
    script = ["#!/bin/sh", *(f"sky jobs launch --yes --detach-run {shlex.quote(name)}" for name in tasks)]
    return {"launch.sh": "\n".join(script) + "\n", **tasks}
