"""The settings of glibc's allocator: made for the process and its children, unless the user has made others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lamina.training.machine import allocator
from lamina.training.machine.allocator import chosen_settings, exported_settings, keep_freed_memory, replacement

glibc_only = pytest.mark.skipif(allocator.glibc_version() is None, reason="needs glibc")
FAULTS = """
import resource, sys
from lamina.training.machine.allocator import keep_freed_memory
if sys.argv[1] == "kept": keep_freed_memory({})
block = bytearray(2**26); del block
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): block = bytearray(b"1") * 2**26; del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@glibc_only
def test_freed_memory_is_used_again_without_page_faults() -> None:
    default, kept = (
        int(subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True).stdout)
        for how in ("default", "kept")
    )
    pages = 5 * 2**26 // 4096
    assert kept < pages / 4
    assert kept < default / 2 or default < pages / 4, "huge pages may have made faults rare already"


@glibc_only
def test_children_inherit_the_settings() -> None:
    environment: dict[str, str] = {}
    assert keep_freed_memory(environment)
    assert environment == exported_settings() == chosen_settings(environment)
    assert all(int(value) > 0 for value in environment.values())


@pytest.mark.parametrize(
    "chosen",
    [
        {"MALLOC_ARENA_MAX": "2"},
        {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=128"},
        {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"},
    ],
)
def test_what_the_user_has_chosen_is_left_alone(chosen: dict[str, str]) -> None:
    environment = dict(chosen)
    assert not keep_freed_memory(environment)
    assert environment == chosen


def test_other_tunables_and_libraries_are_no_choice_of_an_allocator() -> None:
    others = {"GLIBC_TUNABLES": "glibc.cpu.x86_shstk=off", "LD_PRELOAD": "libfaketime.so"}
    assert chosen_settings(others) == {}
    assert replacement(others) == ""


def test_without_glibc_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "glibc_version", lambda: None)
    environment: dict[str, str] = {}
    assert not keep_freed_memory(environment)
    assert environment == {}
