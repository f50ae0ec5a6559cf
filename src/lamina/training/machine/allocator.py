"""The allocator of large tensors on a CPU: glibc keeps the memory of freed tensors for the next step.

By default glibc returns every block above 32 MiB, and a free end of its heap, to the system. The next step gets these
pages back one fault at a time, and the kernel fills each with zeros first. With the settings below a training process
keeps the largest memory it has used until it ends. This module must not import torch.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, MutableMapping

SETTINGS = {
    "MALLOC_MMAP_THRESHOLD_": (-3, 2**30),  # smaller blocks are taken from the heap
    "MALLOC_TRIM_THRESHOLD_": (-1, -1),  # never shrink the heap
    "MALLOC_TOP_PAD_": (-2, 64 * 2**20),  # grow it by as much more at a time
}
"""Each setting by its environment variable: its number in <malloc.h>, and its value."""
TUNABLES, PRELOADED = "GLIBC_TUNABLES", "LD_PRELOAD"
OTHER_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")


def keep_freed_memory(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Make this process and its children keep freed memory, unless the user has chosen otherwise or there is no glibc.

    Returns whether they do.
    """
    version = glibc_version()
    if version is None or chosen_settings(environment) or replacement(environment):
        return False
    call = ctypes.CDLL(None).mallopt
    done = [bool(call(number, value)) for number, value in SETTINGS.values()]  # all, even after a failure
    environment.update(exported_settings())
    return all(done)


def exported_settings() -> dict[str, str]:
    """The environment variables with which a program started later keeps freed memory."""
    return {name: str(value if value >= 0 else 2**63 - 1) for name, (_, value) in SETTINGS.items()}


def chosen_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of glibc's allocator in the environment."""
    names = [name for name in environment if name.startswith("MALLOC_")]
    if "glibc.malloc" in environment.get(TUNABLES, ""):
        names.append(TUNABLES)
    return {name: environment[name] for name in sorted(names)}


def replacement(environment: Mapping[str, str] = os.environ) -> str:
    """The name of another allocator that is loaded in place of glibc's; empty if there is none."""
    loaded = environment.get(PRELOADED, "")
    return next((name for name in OTHER_ALLOCATORS if name in loaded), "")


def glibc_version() -> str | None:
    """The version of the C library; None if it is not glibc."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ") or None
    except (AttributeError, ValueError, OSError):  # Windows, macOS, musl
        return None
