"""Full disks, kills and damaged files: there is always an undamaged checkpoint, and no damaged one is loaded."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.errors import UserError
from lamina.run_folder.seal import DamagedCheckpoint
from lamina.training.checkpoint import storage as checkpoint
from lamina.training.checkpoint.snapshot import Snapshot
from lamina.training.checkpoint.storage import (
    BEST,
    LATEST,
    find_latest,
    list_checkpoints,
    load,
    load_model,
    read,
    save,
    save_model,
)

pytestmark = pytest.mark.faults

FILES = [
    "model.safetensors",
    "optimiser.safetensors",
    "optimiser.json",
    "random.safetensors",
    "counters.json",
    "manifest.json",
]


def snapshot(step: int, content: float | None = None) -> Snapshot:
    """A snapshot in which every value is derived from its step."""
    weights = torch.full((500,), float(step) if content is None else content)
    facts = {"class": "Adam", "state": {}}
    return Snapshot(
        {"w": weights}, {"state.w.exp_avg": 2 * weights}, facts, {"cpu": torch.get_rng_state()}, {"step": step}
    )


def load_whole(folder: Path) -> Snapshot:
    """The latest checkpoint, which must be complete and consistent, without warnings about damaged ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = find_latest(folder)
    assert found is not None
    latest = read(found)
    weights = latest.model["w"]
    assert len(weights.unique()) == 1
    assert torch.equal(latest.optimiser["state.w.exp_avg"], 2 * weights)
    return latest


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Trouble:
    """Fails at the n-th change that a save makes to the disk, or from then on, with a write half done."""

    def __init__(
        self, patch: pytest.MonkeyPatch, number: int, strike: Callable[[], None], lasting: bool = False
    ) -> None:
        self.left, self.strike, self.lasting = number, strike, lasting
        removing = ("unlink", "rmdir") if strike is die else ()  # a full disk does not keep one from removing
        for name in ("mkdir", "chmod", "fsync", "rename", "symlink", "replace", *removing):
            patch.setattr(os, name, self._before(getattr(os, name)))
        patch.setattr(Path, "write_bytes", self._amid(Path.write_bytes, lambda path, content: path))
        patch.setattr(checkpoint, "save_file", self._amid(checkpoint.save_file, lambda tensors, path, metadata: path))

    def _due(self) -> bool:
        self.left -= 1
        return self.left == 0 or (self.lasting and self.left < 0)

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def troubled(*arguments: Any, **options: Any) -> Any:
            if self._due():
                self.strike()
            return function(*arguments, **options)

        return troubled

    def _amid(self, write: Callable[..., Any], written: Callable[..., Path]) -> Callable[..., Any]:
        def troubled(*arguments: Any) -> Any:
            due = self._due()
            answer = write(*arguments)
            if due:
                path = written(*arguments)
                os.truncate(path, path.stat().st_size // 2)
                self.strike()
            return answer

        return troubled


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die() -> None:
    os._exit(9)


def in_child(work: Callable[[], None]) -> tuple[int, str]:
    """Run `work` in a forked process: its exit code, and the message of its `UserError` if it had one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except UserError as error:
            os.write(writer, str(error).encode())
            code = 3
        finally:
            os._exit(code)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return os.waitstatus_to_exitcode(status), pipe.read()


@pytest.fixture(params=["next step", "same step"])
def step(request: pytest.FixtureRequest) -> int:
    """The step to be saved when 0, 1 and 2 are there: a new one, or the last one once more."""
    return {"next step": 3, "same step": 2}[request.param]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints, of which saving with `keep=2` removes the first, for the second is the best one."""
    folder = tmp_path_factory.mktemp("three")
    for each in (0, 1, 2):
        save(folder, snapshot(each), best_step=min(each, 1), keep=3)
    return folder


def copied(three: Path, folder: Path) -> Path:
    return Path(shutil.copytree(three, folder, symlinks=True))


@pytest.fixture
def folder(three: Path, tmp_path: Path) -> Path:
    return copied(three, tmp_path / "checkpoints")


def check_recovery(folder: Path, step: int) -> None:
    """Check that the old or the new checkpoint is complete, and that the next save removes all leftovers."""
    for path in list_checkpoints(folder):
        load(path)
    latest = load_whole(folder)
    assert latest.step in (2, step)
    assert latest.model["w"][0].item() in (2.0, 7.0)
    assert load(folder / BEST).model["w"][0].item() == 1.0
    assert load(folder / LATEST).step in (2, step) if (folder / LATEST).exists() else step == 2
    save(folder, snapshot(4), best_step=1, keep=2)
    assert load_whole(folder).step == 4
    kept = [f"step-{each:08d}" for each in sorted({1, latest.step, 4})]
    assert sorted(path.name for path in folder.iterdir()) == [BEST, LATEST, *kept]


def numbers_until(done: Callable[[int], bool]) -> int:
    for number in range(1, 200):
        if done(number):
            return number
    raise AssertionError("a save has no end")


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
def test_a_disk_full_at_every_write(three: Path, tmp_path: Path, step: int, lasting: bool) -> None:
    def survived(number: int) -> bool:
        folder = copied(three, tmp_path / str(number))
        before = contents(folder / "step-00000001"), contents(folder / "step-00000002")
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*could not be removed.*No space left")
            trouble = Trouble(patch, number, no_space, lasting)
            try:
                saved, message = save(folder, snapshot(step, 7.0), best_step=1, keep=2), ""
            except UserError as error:
                saved, message = None, str(error)
        if saved is None:
            assert "the checkpoint could not be saved (No space left on device)" in message
            assert "make room and resume" in message
        else:
            assert load(saved).model["w"][0].item() == 7.0
        assert not list(folder.glob(".step-*.partial"))
        assert contents(folder / "step-00000001") == before[0]
        if step == 3:
            assert contents(folder / "step-00000002") == before[1]
        elif not lasting:
            assert load(folder / "step-00000002").model["w"][0].item() in (2.0, 7.0)
        check_recovery(folder, step)
        return trouble.left > 0

    assert numbers_until(survived) > 20


def test_a_disk_full_at_every_write_of_weights_alone(tmp_path: Path) -> None:
    def survived(number: int) -> bool:
        target = tmp_path / str(number) / "average"
        target.parent.mkdir()
        save_model(target, {"w": torch.full((500,), 1.0)})
        with pytest.MonkeyPatch.context() as patch:
            trouble, failed = Trouble(patch, number, no_space), False
            try:
                save_model(target, {"w": torch.full((500,), 7.0)})
            except UserError as error:
                failed = "average: could not be saved (No space left on device)" in str(error)
        found = load_model(target)["w"]
        assert len(found.unique()) == 1
        assert failed or found[0].item() == 7.0
        assert [path.name for path in target.parent.iterdir()] == ["average"]
        return trouble.left > 0

    assert numbers_until(survived) > 5


def test_killed_before_every_change_and_amid_every_write(three: Path, tmp_path: Path, step: int) -> None:
    def survived(number: int) -> bool:
        folder = copied(three, tmp_path / str(number))

        def work() -> None:
            Trouble(pytest.MonkeyPatch(), number, die)
            save(folder, snapshot(step, 7.0), best_step=1, keep=2)

        code, message = in_child(work)
        assert code in (0, 9), message
        check_recovery(folder, step)
        return code == 0

    assert numbers_until(survived) > 20


@pytest.mark.parametrize("limit", [1, 30, 1000, 3000, 5000, 5150])
def test_a_limit_on_file_size(folder: Path, limit: int) -> None:
    """A real failure of the system: in the counters, the manifest, the weights, the random state."""

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        save(folder, snapshot(3), best_step=1, keep=2)

    code, message = in_child(work)
    assert code == 3
    assert "step-00000003: the checkpoint could not be saved (" in message
    assert "File too large" in message
    assert sorted(path.name for path in folder.iterdir()) == [BEST, LATEST, *(f"step-{each:08d}" for each in range(3))]
    check_recovery(folder, 3)


def damages(path: Path, whole: bytes) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to damage a file: cuts, additions, and bits; every bit where the file is small."""
    yield "missing", path.unlink
    yield "longer", lambda: path.write_bytes(whole + b"\0")
    for size in sorted({0, 1, len(whole) // 2, len(whole) - 8, len(whole) - 1}):
        yield f"cut to {size}", lambda size=size: path.write_bytes(whole[:size])
    bits = range(8 * len(whole))
    for bit in bits if len(whole) < 100 else {0, 7, bits[-1], *random.Random(5).sample(bits, 400)}:
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", lambda flipped=flipped: path.write_bytes(flipped)


@pytest.mark.parametrize("name", FILES)
def test_damage_to_any_file_is_noticed_and_the_one_before_is_used(folder: Path, name: str) -> None:
    assert sorted(FILES) == sorted(contents(folder / "step-00000002"))
    path = folder / "step-00000002" / name
    whole = path.read_bytes()
    count = 0
    for what, damage in damages(path, whole):
        damage()
        with pytest.raises(DamagedCheckpoint) as caught:
            load(folder / "step-00000002")
        assert str(caught.value).startswith(str(path)), what
        if count % 50 == 0:
            with pytest.warns(UserWarning, match=f"{name}.*The checkpoint before it is used") as warned:
                latest = find_latest(folder)
            assert len(warned) == 1
            assert latest is not None
            assert load(latest).model["w"][0].item() == 1.0
        path.write_bytes(whole)
        count += 1
    assert count > 60
    assert load_whole(folder).step == 2


def test_a_good_file_of_another_checkpoint_is_noticed(folder: Path) -> None:
    for name in set(FILES) - {"manifest.json", "optimiser.json", "random.safetensors"}:  # those two are equal
        before = (folder / "step-00000002" / name).read_bytes()
        shutil.copy(folder / "step-00000001" / name, folder / "step-00000002" / name)
        with pytest.raises(DamagedCheckpoint, match=name):
            load(folder / "step-00000002")
        (folder / "step-00000002" / name).write_bytes(before)


def test_weights_can_be_read_when_only_the_optimiser_is_damaged(folder: Path) -> None:
    (folder / "step-00000002" / "optimiser.safetensors").write_bytes(b"")
    assert load_model(folder / "step-00000002")["w"][0].item() == 2.0


def test_when_all_are_damaged_nothing_is_loaded(folder: Path) -> None:
    for path in list_checkpoints(folder):
        (path / "model.safetensors").unlink()
    with (
        pytest.warns(UserWarning, match="The checkpoint before it is used"),
        pytest.raises(DamagedCheckpoint, match="all 3 checkpoints"),
    ):
        find_latest(folder)


def test_a_damaged_checkpoint_is_replaced_when_its_step_is_saved_again(folder: Path) -> None:
    (folder / "step-00000002" / "counters.json").write_bytes(b"{}")
    save(folder, snapshot(2), keep=2)
    assert load_whole(folder).step == 2


KILLED = """
import os, sys, warnings
from pathlib import Path
import torch
from lamina.training.checkpoint.storage import find_latest, read, save
from lamina.training.checkpoint.snapshot import Snapshot

torch.set_num_threads(1)
warnings.simplefilter("error")
folder = Path(sys.argv[1])


def go_on():
    last = find_latest(folder)
    step = read(last).step if last else 0
    while True:
        step += 1
        weights = torch.full((200_000,), float(step))
        state, facts, random = {"state.w.exp_avg": 2 * weights}, {"class": "Adam"}, {"cpu": torch.get_rng_state()}
        best = step - step % 3 or None
        save(folder, Snapshot({"w": weights}, state, facts, random, {"step": step}), best_step=best)


for _ in sys.stdin:  # torch is imported once, then each victim is forked
    child = os.fork()
    if child == 0:
        go_on()
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_twenty_kills_at_random_moments(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    command = [sys.executable, "-c", KILLED, str(folder)]
    chance, steps, amid = random.Random(11), 0, 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for _ in range(20):
            nursery.stdin.write("go on\n")
            nursery.stdin.flush()
            child = int(nursery.stdout.readline())
            while not list_checkpoints(folder):
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.3))
            os.kill(child, signal.SIGKILL)
            assert int(nursery.stdout.readline()) == -signal.SIGKILL, "it ended before it was killed"
            amid += bool(list(folder.glob(".step-*")))
            latest = load_whole(folder)
            assert latest.model["w"][0].item() == latest.step >= steps
            steps = latest.step
            for link in (LATEST, BEST):
                assert not (folder / link).is_symlink() or load(folder / link).step <= steps
        nursery.stdin.close()
    assert steps > 20
    assert amid > 5, "too few kills happened during a save"
