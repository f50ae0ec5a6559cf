"""Full disks, kills and unreadable folders while a store is being written: a finished store, or nothing."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lamina.data import store_writer
from lamina.data.prepare import PrepareOptions, prepare
from lamina.data.store import Store
from lamina.errors import UserError
from lamina.files.archive import unpack
from support.processes import heed_interrupts

pytestmark = pytest.mark.faults

PROGRAM = """
import json, resource, sys
from lamina.data.prepare import PrepareOptions, prepare
from lamina.errors import UserError
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    prepare(PrepareOptions.read(json.loads(sys.argv[1]), "test"))
except UserError as error:
    print(error)
    sys.exit(3)
"""


def files(folder: Path, lines: int) -> dict[str, Any]:
    for name in "st":
        text = "".join(f"{name}{number} some words that repeat, {number % 97}\n" for number in range(lines))
        (folder / name).write_text(text)
    return {
        "folder": str(folder),
        "output": str(folder / "out" / "store"),
        "train": ["s", "t"],
        "tokenizer": {"size": 400},
    }


def start(values: dict[str, Any], limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, json.dumps(values), str(limit)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, preexec_fn=heed_interrupts)


@pytest.mark.parametrize("limit", [1, 100, 4_000, 20_000, 150_000])
def test_a_full_disk_leaves_nothing_and_says_so(tmp_path: Path, limit: int) -> None:
    """A limit on file size stands for a full disk: at the first header, in the arrays, in the tokenizer's file."""
    values = files(tmp_path, 20_000)
    process = start(values, limit)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 3, errors
    assert "the store could not be written" in output
    assert "make room" in output
    assert errors == ""
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("fails", ["write", "fsync", "rename"])
def test_an_error_of_the_system_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    values = files(tmp_path, 500)

    def no_space(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target: Any = {"write": store_writer.ArrayWriter, "fsync": os, "rename": Path}[fails]
    with monkeypatch.context() as patch:
        patch.setattr(target, "append" if fails == "write" else fails, no_space)
        with pytest.raises(UserError, match=r"\(No space left on device\).*run lamina prepare again"):
            prepare(PrepareOptions.read(values, "test"))
    assert list((tmp_path / "out").iterdir()) == []
    assert len(prepare(PrepareOptions.read(values, "test"))["train"]) == 500


def test_replacing_fails_without_harm_to_the_old_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = files(tmp_path, 500)
    old = prepare(PrepareOptions.read(values, "test"))
    process = start({**values, "replace": True, "max_length": 9}, 100)
    assert process.communicate(timeout=120)[0].startswith(values["output"])
    assert Store.open(values["output"]).manifest == old.manifest
    assert Store.open(values["output"]).verify() == []


def test_killed_at_any_moment_then_run_again(tmp_path: Path) -> None:
    values = files(tmp_path, 60_000)
    out = tmp_path / "out"
    partial = out / ".store.lamina-partial"
    moments = [partial, partial / "train" / "source.tokens.npy", partial / "train" / "source.tokens.npy"]
    for number, moment in enumerate(moments):
        process = start(values)
        deadline = time.monotonic() + 120
        while not moment.exists() or (number == 2 and moment.stat().st_size < 50_000):
            assert time.monotonic() < deadline
            assert process.poll() is None, "finished before it could be killed"
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert not Path(values["output"]).exists()
        with pytest.raises(UserError, match="unfinished.*run it again"):
            Store.open(values["output"])
        with pytest.raises(UserError, match="not a store, for it has no manifest.json"):
            Store.open(partial)
    store = prepare(PrepareOptions.read(values, "test"))
    assert len(store["train"]) == 60_000
    assert store.verify() == []
    assert [path.name for path in out.iterdir()] == ["store"]


def test_interrupted_from_the_keyboard_nothing_is_left(tmp_path: Path) -> None:
    values = files(tmp_path, 60_000)
    process = start(values)
    moment = tmp_path / "out" / ".store.lamina-partial" / "train"
    while not moment.exists():
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert list((tmp_path / "out").iterdir()) == []


def test_two_at_once_make_one_store(tmp_path: Path) -> None:
    values = files(tmp_path, 20_000)
    processes = [start(values) for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    codes = [process.returncode for process in processes]
    assert codes.count(0) >= 1
    assert all("another lamina prepare" in output for output, code in zip(outputs, codes, strict=True) if code)
    assert Store.open(values["output"]).verify() == []
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["store"]


def test_unpacking_onto_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("a.txt", "content")

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(UserError, match="No space left"):
        unpack(tmp_path / "x.zip", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]
