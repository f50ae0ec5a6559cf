"""Checkpoints on disk: each is a new folder, written and synced under a hidden name, then renamed.

So a folder `step-…` is always complete, whenever the process was killed. Only the process that holds the lock of the
run folder saves. Names of files are in `lamina.run_folder.checkpoints`. Any number of processes can read a checkpoint,
sharded or not.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.files.atomic import sync_folder
from lamina.files.hashes import FileRecord
from lamina.run_folder.checkpoints import (
    BEST,
    COUNTERS,
    FILES,
    LATEST,
    MANIFEST,
    MODEL,
    OPTIMISER,
    OPTIMISER_FACTS,
    PROBE,
    RANDOM,
    REPLACED,
    finished_checkpoints,
    list_checkpoints,
    name_step,
    unfinished_checkpoints,
)
from lamina.run_folder.seal import DamagedCheckpoint, check, seal
from lamina.training.checkpoint.shards import (
    ShardedLike,
    Shards,
    are_sharded,
    check_complete,
    own_shards,
    read_shards,
    write_shards,
)
from lamina.training.checkpoint.snapshot import Snapshot, Tensors, parameter_of
from lamina.training.distributed.world import ALONE, World


def save(
    folder: Path, snapshot: Snapshot, *, best_step: int | None = None, keep: int = 2, world: World = ALONE
) -> Path:
    """Write a checkpoint, set the links, and then remove all but the last `keep` and the best one.

    All processes call it. The first writes everything except the others' shards.
    """
    assert keep >= 2, "one checkpoint is too few: it may be damaged"
    target = folder / name_step(snapshot.step)
    partial = folder / f".{target.name}.partial"

    def begin() -> None:
        with _saving(target):
            folder.mkdir(parents=True, exist_ok=True)
            _sweep(folder)
            partial.mkdir()

    def finish() -> None:
        with _saving(target):
            _write(partial, snapshot, written)
            _put_in_place(partial, target)
            point(folder, latest_step=snapshot.step, best_step=best_step)

    try:
        world.on_first(begin)
        with _saving(target):
            _write_shards(partial, snapshot)  # torch raises an error of any process in all of them
        written = world.gather(world.on_all(lambda: own_shards(partial, world.rank)))
        world.on_first(finish)
    finally:
        if world.is_first:
            shutil.rmtree(partial, ignore_errors=True)
    if world.is_first:
        _remove_old(folder, snapshot.step, best_step, keep)
    return target


def save_model(target: Path, model: Tensors) -> None:
    """Write only weights, sealed as in a checkpoint; weights that exist already are replaced."""
    partial, replaced = target.with_name(f".{target.name}.partial"), target.with_name(target.name + REPLACED)

    def sweep() -> None:
        shutil.rmtree(partial, ignore_errors=True)
        if target.exists():
            shutil.rmtree(replaced, ignore_errors=True)

    sweep()  # after a process that was killed
    try:
        partial.mkdir()
        _write_tensors(partial, {MODEL: model})
        _finish(partial)
        _put_in_place(partial, target)
    except (OSError, SafetensorError) as error:
        what = getattr(error, "strerror", None) or error
        raise UserError(f"{target}: could not be saved ({what}); make room and try again.") from error
    finally:
        sweep()


def load(path: Path) -> Snapshot:
    """Read a checkpoint after checking the hashes of all its files."""
    check(path, FILES)
    return read(path)


def load_model(path: Path) -> Tensors:
    """Read only the weights, after checking their hashes."""
    check(path, (MODEL,))
    with _reading(path):
        return _read_tensors(path / MODEL, lambda name: None)


def find_latest(folder: Path, world: World = ALONE) -> Path | None:
    """The newest undamaged checkpoint, with a warning for each damaged one; None if none was saved.

    All processes call it; the first one decides.
    """
    name = world.on_first(lambda: _newest_good(folder))  # not an index: processes may list the folder differently
    return None if name is None else folder / name


def read(path: Path, model: nn.Module | None = None) -> Snapshot:
    """Read a checkpoint that was checked. Of a sharded model each process reads its own part."""
    parameters = {} if model is None else dict(model.named_parameters())
    with _reading(path):
        return Snapshot(
            model=_read_tensors(path / MODEL, parameters.get),
            optimiser=_read_tensors(path / OPTIMISER, lambda name: parameters.get(parameter_of(name))),
            optimiser_facts=json.loads((path / OPTIMISER_FACTS).read_bytes()),
            random=load_file(path / RANDOM),
            counters=json.loads((path / COUNTERS).read_bytes()),
        )


def point(folder: Path, *, latest_step: int, best_step: int | None) -> None:
    """Set the links `latest` and `best`: after saving, and on resuming, because a killed process may leave old ones."""
    for link, step in {LATEST: latest_step, BEST: best_step}.items():
        if step is None or not (folder / name_step(step)).exists():
            (folder / link).unlink(missing_ok=True)
            continue
        partial = folder / f".{link}.partial"
        partial.unlink(missing_ok=True)
        partial.symlink_to(name_step(step))
        partial.replace(folder / link)
    sync_folder(folder)


def _newest_good(folder: Path) -> str | None:
    """The name of the newest undamaged checkpoint; None if there are none."""
    paths = list_checkpoints(folder)
    for path in reversed(paths):
        try:
            check(path, FILES)
            return path.name
        except DamagedCheckpoint as damage:
            warnings.warn(f"{damage} The checkpoint before it is used.", stacklevel=3)
    if paths:
        raise DamagedCheckpoint(f"{folder}: all {len(paths)} checkpoints are damaged; start a new run.")
    return None


def _write_shards(folder: Path, snapshot: Snapshot) -> None:
    for name, tensors in {MODEL: snapshot.model, OPTIMISER: snapshot.optimiser}.items():
        if are_sharded(tensors):
            write_shards((folder / name).with_suffix(""), tensors)


def _write(folder: Path, snapshot: Snapshot, shards: Sequence[Shards]) -> None:
    facts: dict[str, Any] = {OPTIMISER_FACTS: snapshot.optimiser_facts, COUNTERS: snapshot.counters}
    for name, content in facts.items():
        (folder / name).write_bytes((json.dumps(content, allow_nan=False) + "\n").encode())
    _write_tensors(folder, {MODEL: snapshot.model, OPTIMISER: snapshot.optimiser, RANDOM: snapshot.random})
    check_complete(_finish(folder), shards)


def _write_tensors(folder: Path, files: Mapping[str, Tensors]) -> None:
    for name, tensors in files.items():
        if not are_sharded(tensors):
            save_file(_without_sharing(tensors), folder / name, {"format": "pt"})


def _finish(folder: Path) -> Mapping[str, FileRecord]:
    sealed = seal(folder)
    mode = (folder / MANIFEST).stat().st_mode
    for path in folder.glob("*.safetensors"):
        path.chmod(mode)  # safetensors makes files readable by the owner only
    for path in (*folder.rglob("*"), folder):
        sync_folder(path)  # works for files, too
    return sealed


def _read_tensors(file: Path, like: ShardedLike) -> Tensors:
    return load_file(file) if file.exists() else read_shards(file.with_suffix(""), like)


def _without_sharing(tensors: Tensors) -> dict[str, Tensor]:
    """Dense tensors without shared memory: safetensors refuses tensors that share it, so they are written twice."""
    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        separate[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return separate


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename the new checkpoint; one of the same step is kept under another name until the new one is in place."""
    replaced = target.with_name(target.name + REPLACED)
    if target.exists():
        target.rename(replaced)
    try:
        partial.rename(target)
    except OSError:
        if replaced.exists():
            replaced.rename(target)
        raise
    sync_folder(target.parent)


def _remove_old(folder: Path, step: int, best_step: int | None, keep: int) -> None:
    """Delete old checkpoints, and those newer than the one resumed from: they belong to an abandoned continuation."""
    finished = sorted(finished_checkpoints(folder))
    steps = sorted({each for each, whole, _ in finished if whole and each <= step})
    kept = {*steps[-keep:], best_step}
    for each, whole, path in finished:
        if not whole or each not in kept:
            try:
                _discard(path)
            except OSError as error:
                warnings.warn(f"{path}: an old checkpoint could not be removed ({error.strerror}).", stacklevel=3)


def _sweep(folder: Path) -> None:
    """Remove incomplete checkpoints of a process that was killed while saving."""
    for path in unfinished_checkpoints(folder):
        shutil.rmtree(path)
    for path in folder.glob(PROBE.format(token="*")):
        path.unlink()
    for _, whole, path in list(finished_checkpoints(folder)):
        if not whole:
            original = path.with_name(path.name.removesuffix(REPLACED))
            _discard(path) if original.exists() else path.rename(original)


def _discard(path: Path) -> None:
    """Rename before deleting, so that no incomplete checkpoint is ever visible."""
    hidden = path.with_name(f".{path.name}.discarded")
    path.rename(hidden)
    shutil.rmtree(hidden)


@contextmanager
def _saving(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{target}: the checkpoint could not be saved ({getattr(error, 'strerror', None) or error}). Those before "
            f"it are unchanged; make room and resume the run."
        ) from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise `DamagedCheckpoint` if the process that trains deletes a checkpoint while this one reads it."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise DamagedCheckpoint(f"{path}: cannot be read any more ({error}).") from error
