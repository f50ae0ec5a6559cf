"""A lock is held by one process, whose name the others are told, and released when that process ends."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import lock_descriptor

from lamina.errors import UserError
from lamina.files.lock import FolderLock, Lock


def test_the_holder_is_named_and_its_file_stays(tmp_path: Path) -> None:
    one, other = Lock(tmp_path / ".lock"), Lock(tmp_path / ".lock")
    assert not (tmp_path / ".lock").exists(), "reading takes no lock"
    one.acquire()
    assert (one.held, other.held) == (True, False)
    for _ in range(2):  # a refused process does not change the name of the holder
        with pytest.raises(
            UserError, match=rf"process {os.getpid()} on {socket.gethostname()} is writing in this fold"
        ):
            other.acquire()
    one.release()
    assert not one.held
    assert (tmp_path / ".lock").exists()
    other.acquire()
    other.release()


def test_a_lock_without_a_name_is_held_by_another_process(tmp_path: Path) -> None:
    one = Lock(tmp_path / ".lock")
    one.acquire()
    os.truncate(one.path, 0)  # as a full disk leaves it
    with pytest.raises(UserError, match="another process is writing in this folder"):
        Lock(one.path).acquire()
    one.release()


def test_a_lock_is_held_though_nobody_keeps_its_object(tmp_path: Path) -> None:
    Lock(tmp_path / ".lock").acquire()
    with pytest.raises(UserError, match="is writing in this folder"):
        Lock(tmp_path / ".lock").acquire()


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from lamina.files.lock import Lock\n"
        "Lock(pathlib.Path(sys.argv[1])).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        lock = Lock(tmp_path / ".lock")
        with pytest.raises(UserError, match=f"process {holder.pid} on"):
            lock.acquire()
        holder.kill()
    lock.acquire()
    lock.release()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", missing)
    with pytest.raises(UserError, match=r"\.lock: this file system cannot lock files \(Function not implemented\)"):
        Lock(tmp_path / ".lock").acquire()


def test_a_folder_is_locked_without_a_file_and_while_it_is_renamed(tmp_path: Path) -> None:
    folder = tmp_path / "hidden"
    one, other = FolderLock(folder), FolderLock(folder)
    assert one.acquire()
    assert not other.acquire()
    assert list(folder.iterdir()) == []
    folder.rename(tmp_path / "finished")
    assert other.acquire(), "a new folder of that name"
    assert folder.is_dir()
    one.release()
    other.release()
    assert one.acquire()
    one.release()


def test_a_folder_that_is_renamed_before_it_is_locked_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, moves = tmp_path / "hidden", iter(["finished"])

    def lock_late(descriptor: int, *, blocking: bool) -> bool:
        for name in moves:  # its holder finishes just before the lock is taken
            folder.rename(tmp_path / name)
        return lock_descriptor(descriptor, blocking=blocking)

    monkeypatch.setattr("lamina.files.lock.lock_descriptor", lock_late)
    lock = FolderLock(folder)
    assert lock.acquire()
    assert not FolderLock(folder).acquire(), "the new folder is locked, not the renamed one"
    assert FolderLock(tmp_path / "finished").acquire()
    lock.release()
