"""The examination of a machine: what it finds, and what it advises for each finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.training.machine import bf16, doctor
from lamina.training.machine.allocator import exported_settings
from lamina.training.machine.doctor import (
    AllocatorMemory,
    Bf16,
    Determinism,
    Processor,
    advise,
    check_determinism,
    examine_machine,
)

PROCESSOR = Processor("some CPU", cores=4, threads=4, threads_chosen=None, instructions=())
MEMORY = AllocatorMemory("2.36", "", exported_settings())
BF16 = Bf16(announced=True, killed_by="", limit_helps=False)
SAME = Determinism("cpu", identical=True, steps=3, seconds=1.0, threads=4)


@pytest.fixture(autouse=True)
def _no_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bf16, "probe", lambda limit=None: "")


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "STEPS", 2)


def lines(**changes: Any) -> list[str]:
    found = {"processor": PROCESSOR, "memory": MEMORY, "bf16_support": BF16, "determinism": SAME} | changes
    return [advice.line for advice in advise(**found)]


def test_a_machine_with_good_settings_needs_no_advice() -> None:
    assert lines() == []


def test_each_finding_has_a_line_that_changes_it() -> None:
    assert lines(processor=replace(PROCESSOR, threads=1)) == ["export OMP_NUM_THREADS=4"]
    [line] = lines(memory=replace(MEMORY, settings={}))
    assert line.startswith("export MALLOC_MMAP_THRESHOLD_=")
    assert lines(memory=replace(MEMORY, settings={}, replacement="jemalloc")) == []
    assert lines(memory=AllocatorMemory(None, "", {})) == []
    killed = replace(BF16, killed_by="SIGILL")
    assert lines(bf16_support=replace(killed, limit_helps=True)) == ["export ONEDNN_MAX_CPU_ISA=AVX512_CORE"]
    assert lines(bf16_support=killed) == ["lamina train … train.precision=fp32"]
    assert lines(determinism=replace(SAME, identical=False)) == ["export OMP_NUM_THREADS=1"]


def test_the_same_seed_gives_the_same_weights_and_the_random_state_stays(few_steps: None) -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    found = check_determinism()
    assert found.identical
    assert found.steps == 2
    assert torch.equal(torch.rand(1), expected)


def test_weights_that_differ_are_found(few_steps: None, monkeypatch: pytest.MonkeyPatch) -> None:
    train, noise = doctor._train, iter((0.0, 1e-7))

    def disturbed(*arguments: Any) -> Any:
        weights, steps = train(*arguments)
        next(iter(weights.values())).add_(next(noise))
        return weights, steps

    monkeypatch.setattr(doctor, "_train", disturbed)
    assert not check_determinism().identical


def test_time_ends_the_first_training_after_one_step_at_least() -> None:
    weights, steps = doctor._train("cpu", 50, seconds=0.0)
    assert steps == 1
    assert all(value.isfinite().all() for value in weights.values())


@pytest.fixture
def cpu_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(doctor, "CPU_INFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


def test_the_examination_reads_the_machine(few_steps: None, cpu_info: Path) -> None:
    core = "model name\t: Some CPU @ 2 GHz: fast\nflags\t\t: fpu avx2 amx_tile\n"
    cpu_info.write_text(f"processor\t: 0\n{core}\nprocessor\t: 1\n{core}")
    found = examine_machine({"OMP_NUM_THREADS": "3"})
    assert found.processor.name == "Some CPU @ 2 GHz: fast"
    assert found.processor.instructions == ("avx2", "amx_tile")
    assert found.processor.threads_chosen == "3"
    assert found.processor.threads == torch.get_num_threads()
    assert found.versions["torch"] == torch.__version__
    assert found.memory.settings == {}
    cpu_info.unlink()
    assert examine_machine({}).processor.instructions == ()
