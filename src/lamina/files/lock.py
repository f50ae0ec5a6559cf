"""One process at a time: a lock on a file that the kernel releases when the process ends, however it ends."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from lamina.errors import UserError


class Lock:
    """An exclusive lock; the file says who holds it, and stays when it is released."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take the lock, or say who has it."""
        import fcntl  # not on every system

        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise UserError(
                f"{self.path.parent}: {holder} is writing in this folder; wait for it, end it, or choose another one."
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise UserError(f"{self.path}: this file system cannot lock files ({error.strerror}).") from error
        with suppress(OSError):  # a full disk: the lock holds without a name in it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
