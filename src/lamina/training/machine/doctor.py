"""What this machine offers for training, whether it trains deterministically, and which settings would be better."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor

from lamina.formatting import count
from lamina.model.options import ModelOptions
from lamina.model.transformer import Transformer
from lamina.training.machine import allocator, bf16
from lamina.training.optimisers import OptimiserOptions, build_optimiser, set_learning_rate
from lamina.version import __version__

PACKAGES = ("torch", "numpy", "pydantic", "tokenizers", "safetensors")
THREADS = "OMP_NUM_THREADS"
CPU_INFO = Path("/proc/cpuinfo")
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")
STEPS, SECONDS = 20, 3.0
"""Updates of each of the two trainings that are compared, and the seconds after which the first one ends."""


@dataclass(frozen=True)
class Processor:
    name: str
    cores: int
    """The number of cores that this process may use."""
    threads: int
    """The number of threads of torch's operations."""
    threads_chosen: str | None
    """The value of OMP_NUM_THREADS; None if it is not set."""
    instructions: tuple[str, ...]
    """The vector and matrix instructions that matter here, as far as the system names them."""


@dataclass(frozen=True)
class AllocatorMemory:
    glibc: str | None
    """The version of glibc; None with another C library."""
    replacement: str
    """The allocator that is preloaded in place of glibc's."""
    settings: Mapping[str, str]
    """The allocator's settings in the environment; the commands of Lamina set those that keep freed memory."""


@dataclass(frozen=True)
class Bf16:
    announced: bool
    """Whether the processor announces bf16 instructions."""
    killed_by: str
    """The signal that kills a process that multiplies in bf16; empty if it survives."""
    limit_helps: bool
    """Whether it survives when oneDNN is limited to AVX-512."""


@dataclass(frozen=True)
class Determinism:
    device: str
    identical: bool
    """Whether two trainings with the same seed ended with the same weights, bit for bit."""
    steps: int
    seconds: float
    threads: int


@dataclass(frozen=True)
class Advice:
    """A change, and the line that makes it."""

    why: str
    line: str


@dataclass(frozen=True)
class Examination:
    versions: Mapping[str, str]
    processor: Processor
    memory: AllocatorMemory
    devices: tuple[str, ...]
    """The accelerators that torch can use; empty if there are none."""
    bf16: Bf16
    determinism: Determinism
    advice: tuple[Advice, ...]


def examine_machine(environment: Mapping[str, str] = os.environ) -> Examination:
    """Examine the machine; takes about ten seconds, most of them to train a small model twice."""
    processor, memory, bf16_support = _processor(environment), _memory(environment), _bf16()
    determinism = check_determinism()
    return Examination(
        versions=_versions(),
        processor=processor,
        memory=memory,
        devices=_devices(),
        bf16=bf16_support,
        determinism=determinism,
        advice=tuple(advise(processor, memory, bf16_support, determinism)),
    )


def advise(processor: Processor, memory: AllocatorMemory, bf16_support: Bf16, determinism: Determinism) -> list[Advice]:
    """What to change, the most useful first."""
    advice = []
    if processor.threads != processor.cores:
        why = f"torch uses {count(processor.threads, 'thread')} on {count(processor.cores, 'core')}"
        advice.append(Advice(why, f"export {THREADS}={processor.cores}"))
    if memory.glibc is not None and not memory.replacement and not memory.settings:
        lines = [f"{name}={value}" for name, value in allocator.exported_settings().items()]
        advice.append(Advice("freed memory is returned to the system at every step", f"export {' '.join(lines)}"))
    if bf16_support.killed_by:
        why = f"a process that multiplies in bf16 is killed ({bf16_support.killed_by})"
        limit = f"export {bf16.VARIABLE}={bf16.LIMIT}"
        advice.append(Advice(why, limit if bf16_support.limit_helps else "lamina train … train.precision=fp32"))
    if not determinism.identical:
        why = "two trainings with the same seed differ"
        line = "export CUBLAS_WORKSPACE_CONFIG=:4096:8" if determinism.device != "cpu" else f"export {THREADS}=1"
        advice.append(Advice(why, line))
    return advice


def check_determinism() -> Determinism:
    """Train a small model twice from the same seed, for a few seconds, and compare all weights."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    began = time.perf_counter()
    with torch.random.fork_rng():
        first, steps = _train(device, STEPS, SECONDS)
        second, _ = _train(device, steps)
    identical = all(torch.equal(first[name], second[name]) for name in first)
    return Determinism(device, identical, steps, time.perf_counter() - began, torch.get_num_threads())


def _train(device: str, steps: int, seconds: float | None = None) -> tuple[dict[str, Tensor], int]:
    """The weights after some updates, and the number of these updates."""
    options = ModelOptions.read(
        {"preset": "iwslt", "num_layers": 2, "model_dim": 128, "num_heads": 4, "feed_forward_dim": 256}
        | {"vocab_size": 2000},
        where="lamina doctor",
    )
    torch.manual_seed(1)
    model = Transformer.build(options).to(device).train()
    optimiser = build_optimiser(OptimiserOptions(), model)
    set_learning_rate(optimiser, 1e-3)
    draw = partial(torch.randint, 4, 2000, generator=torch.Generator().manual_seed(1))
    began, done = time.perf_counter(), 0
    while done < steps and (seconds is None or done == 0 or time.perf_counter() - began < seconds):
        source, target = (draw((16, 24)).to(device) for _ in range(2))
        model(source, target, labels=target.roll(-1, 1)).smoothed.mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        done += 1
    return {name: value.detach().cpu() for name, value in model.state_dict().items()}, done


def _versions() -> dict[str, str]:
    """The versions of Lamina, Python and the packages on which results and speed depend."""
    found = {name: metadata.version(name) for name in PACKAGES}
    return {"lamina": __version__, "python": platform.python_version(), "system": platform.platform(), **found}


def _processor(environment: Mapping[str, str]) -> Processor:
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.exists() else []
    fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    described = {name.strip(): value.strip() for name, value in fields.items()}
    flags = described.get("flags", "").split()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Processor(
        name=described.get("model name", platform.processor() or platform.machine()),
        cores=cores,
        threads=torch.get_num_threads(),
        threads_chosen=environment.get(THREADS),
        instructions=tuple(name for name in INSTRUCTIONS if name in flags),
    )


def _memory(environment: Mapping[str, str]) -> AllocatorMemory:
    settings = allocator.chosen_settings(environment)
    return AllocatorMemory(allocator.glibc_version(), allocator.replacement(environment), settings)


def _bf16() -> Bf16:
    announced = bf16.is_announced()
    killed_by = bf16.probe()
    return Bf16(announced, killed_by, bool(killed_by) and not bf16.probe(bf16.LIMIT))


def _devices() -> tuple[str, ...]:
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return (*devices, "Apple MPS") if torch.backends.mps.is_available() else tuple(devices)
