"""Locks on a file or a folder that one process holds at a time; the kernel releases them when the process ends."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor

from lamina.errors import UserError

_held: set[FileLock] = set()
"""The acquired locks: filelock would release one that is garbage-collected."""


class Lock:
    """An exclusive lock. The file contains the name of the holder, and stays when the lock is released."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Without filelock's fallback, whose lock would remain after a process is killed.
        self._lock = FileLock(
            path, thread_local=False, preserve_lock_file=True, fallback_to_soft=False, on_acquired=_write_holder
        )

    @property
    def held(self) -> bool:
        return self._lock.is_locked

    @property
    def held_by_another(self) -> bool:
        """Whether another process holds the lock, as far as can be known; nothing is created or written."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, which filelock does not offer: all may ask
        except BlockingIOError:
            return not self.held
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def acquire(self) -> None:
        """Acquire the lock; if another process holds it, a `UserError` names that process."""
        if self.path.is_symlink():  # its target would be truncated
            raise UserError(f"{self.path}: a link, where a lock is written; remove the link")
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            holder = "another process"
            with suppress(OSError):
                holder = self.path.read_text("utf-8", errors="replace").strip() or holder
            raise UserError(
                f"{self.path.parent}: {holder} is writing in this folder; wait for it, end it, or choose another one."
            ) from None
        except OSError as error:
            raise UserError(f"{self.path}: this file system cannot lock files ({error.strerror}).") from error
        _held.add(self._lock)

    def release(self) -> None:
        self._lock.release()
        _held.discard(self._lock)


class FolderLock:
    """An exclusive lock on a folder itself: it leaves no file, and the folder can be renamed while the lock is held."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = -1

    def acquire(self) -> bool:
        """Create the folder if it does not exist and lock it; False if another process holds the lock."""
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self._descriptor = os.open(self.folder, os.O_RDONLY)
            except FileNotFoundError:
                continue  # its holder has renamed it
            if not lock_descriptor(self._descriptor, blocking=False):
                self.release()
                return False
            # Between opening and locking, the previous holder may have renamed the folder.
            if self.folder.exists() and os.path.samestat(os.fstat(self._descriptor), os.stat(self.folder)):
                return True
            self.release()

    def release(self) -> None:
        os.close(self._descriptor)


def _write_holder(descriptor: int) -> None:
    with suppress(OSError):  # a full disk: the lock holds without a name in it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
