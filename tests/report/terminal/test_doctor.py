"""The examination of a machine on a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lamina.report.terminal.doctor import show_examination
from lamina.training.machine.doctor import Advice, AllocatorMemory, Bf16, Determinism, Examination, Processor

FOUND = Examination(
    versions={"lamina": "1.2", "torch": "2.99"},
    processor=Processor("some CPU [/x]", cores=2, threads=1, threads_chosen="1", instructions=("avx2",)),
    memory=AllocatorMemory("2.36", "", {"MALLOC_ARENA_MAX": "2"}),
    devices=(),
    bf16=Bf16(announced=True, killed_by="SIGILL", limit_helps=True),
    determinism=Determinism("cpu", identical=True, steps=20, seconds=1.25, threads=1),
    advice=(Advice("torch uses 1 thread on 2 cores", "export OMP_NUM_THREADS=2"),),
)


def test_every_finding_and_the_advice_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_examination(FOUND)
    shown = " ".join(capsys.readouterr().out.split())
    for expected in (
        "lamina 1.2, torch 2.99",
        "some CPU [/x] (avx2)",
        "1 thread of torch on 2 cores, OMP_NUM_THREADS 1",
        "no accelerator",
        "glibc 2.36, MALLOC_ARENA_MAX=2",
        "was killed (SIGILL)",
        "the same weights, bit for bit: 20 steps twice on cpu",
        "change it with export OMP_NUM_THREADS=2",
    ):
        assert expected in shown


def test_nothing_to_change_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    healthy = replace(FOUND, advice=(), bf16=Bf16(announced=False, killed_by="", limit_helps=False))
    show_examination(replace(healthy, determinism=replace(FOUND.determinism, identical=False)))
    shown = capsys.readouterr().out
    assert "Nothing to change." in shown
    assert "other weights" in shown
    assert "killed" not in shown
