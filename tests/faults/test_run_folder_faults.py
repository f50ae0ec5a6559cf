"""Several processes on one run folder: one writes, and its death frees the folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.run_folder.folder import RunFolder

pytestmark = pytest.mark.faults

HOLDER = """
import subprocess, sys
from lamina.run_folder.folder import RunFolder
RunFolder(sys.argv[1]).claim()
bystander = subprocess.Popen(["sleep", "20"], stdout=subprocess.DEVNULL)
print(bystander.pid, flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    """Killed, the first holds nothing any more, even if a process that it started lives on."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        bystander = int(holder.stdout.readline())
        try:
            with pytest.raises(UserError, match=rf"process {holder.pid} on \S+ is writing in this folder; wait"):
                RunFolder(tmp_path / "run").claim()
            holder.kill()
            holder.wait()
            os.kill(bystander, 0)
            RunFolder(tmp_path / "run").claim().release()
        finally:
            os.kill(bystander, signal.SIGKILL)


def test_of_many_at_once_one_gets_the_folder(tmp_path: Path) -> None:
    start, go = os.pipe()
    children = []
    for _ in range(8):
        if (child := os.fork()) == 0:
            code = 1
            try:
                os.close(go)
                os.read(start, 1)
                RunFolder(tmp_path / "run").claim()
                time.sleep(0.5)
                code = 0
            except UserError:
                code = 3
            finally:
                os._exit(code)
        children.append(child)
    os.close(start)
    os.close(go)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [0, *[3] * 7]
