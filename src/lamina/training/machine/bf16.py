"""Detection of processors on which bf16 instructions fail, before torch is imported.

Some machines announce AMX but end every process that uses it with SIGILL. So one bf16 product is tried in a child
process. Where the child is killed, oneDNN, which does torch's bf16 products on a CPU, is limited to plain AVX-512 by
the environment variable `ONEDNN_MAX_CPU_ISA`, which it reads once per process. This module must not import torch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lamina.errors import UserError

VARIABLE, LIMIT = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE"
CPU_INFO = Path("/proc/cpuinfo")
FLAGS = {"amx_bf16", "amx_tile", "avx512_bf16"}
PROBE: tuple[str, ...] = (
    sys.executable,
    "-c",
    "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x",
)


def prepare_environment(config: Mapping[str, Any]) -> None:
    """Call `make_bf16_safe` if a config asks for bf16 on a CPU; to be called before torch is imported."""
    train = config.get("train")
    options = train if isinstance(train, Mapping) else {}  # mistakes in the config are reported when it is read
    if options.get("precision") == "bf16" and not str(options.get("device", "")).startswith("cuda"):
        make_bf16_safe()


def make_bf16_safe() -> None:
    """Limit oneDNN for this process and its children if bf16 products would kill them.

    Raises a `UserError` where that is too late, because torch is imported already, or where the limit does not help.
    """
    if os.environ.get(VARIABLE) == LIMIT or not is_announced() or not (signal_name := probe()):
        return
    what = f"this processor announces bf16 instructions, but a process that uses them is killed ({signal_name})"
    if probe(LIMIT):
        raise UserError(f"train.precision: {what}; use fp32")
    if "torch" in sys.modules:
        raise UserError(
            f"train.precision: {what}; set {VARIABLE}={LIMIT} in the environment before Python starts, train with the "
            "command lamina train, which sets it, or use fp32"
        )
    os.environ[VARIABLE] = LIMIT


def is_announced() -> bool:
    """Whether the processor's flags name bf16 instructions."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:  # not Linux; no such machine is known there
        return False
    return any(FLAGS & set(line.split()) for line in lines if line.startswith("flags"))


@cache
def probe(limit: str | None = None) -> str:
    """Multiply in bf16 in a child process; returns the name of the signal that killed it, or an empty string."""
    environment = os.environ if limit is None else {**os.environ, VARIABLE: limit}
    child = subprocess.run(PROBE, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    return signal.Signals(-child.returncode).name if child.returncode < 0 else ""
