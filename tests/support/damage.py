"""The damage trial: every file of a run folder and a store is damaged in turn, and every command has to notice it.

A trial damages one file of a copy in one way and runs one command in this process, as `lamina` runs it. It ends as

    refused        the command ends with a non-zero exit code and a message that names the file (of two that were
                   swapped, either of them; of a checkpoint, also its folder)
    warned         it ends with exit code 0, and a message on the terminal names the file
    not read       it opens the file at no time (Python's audit hook sees every file that is opened), says nothing, and
                   its results are those without damage
    only a name    the file is `.lock`, which holds only the name of the process that last wrote, and the results are
                   those without damage
    unchanged      the damage left the file as it was: a swap with a file of the same content
    silent         anything else without an exception: also the right results, if the file was read and not mentioned
    traceback      an exception reaches the user

Files of safetensors are opened by their own library, which the hook does not see; but Lamina hashes them in Python
before. No file is hashed by an earlier trial: the cache of verified files takes none that is younger than two seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch

from lamina.cli import main
from lamina.run_folder.folder import RunFolder
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run
from lamina.training.config import RunConfig
from support.small_runs import weights
from support.small_tasks import small_options, small_store

FLIPS = 20
WAYS = ("truncated", "deleted", "emptied", "swapped", *(f"flipped {number}" for number in range(FLIPS)))
LINK_WAYS = ("deleted", "swapped")
Verdict = Literal["refused", "warned", "not read", "only a name", "unchanged", "silent", "traceback"]
Case = tuple[str, str, str]
"""File, way of damage and command."""

_opened: set[str] = set()
"""Paths that were opened since the set was last cleared."""


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.link", "os.symlink", "shutil.copyfile") and isinstance(arguments[0], str | os.PathLike):
        _opened.add(os.path.realpath(arguments[0]))


class DamageTrial:
    """A run of four steps with all that commands add to it, a store, and the results of each command without damage."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.origin = self.root / "origin"
        store = small_store("translation", self.origin / "stores", 400, train=40, valid=4)
        values: dict[str, Any] = {
            "task": "translation",
            "task_options": small_options("translation", 8),
            "data": {"store": str(self.place / "store"), "max_tokens": 200, "oversize": "alone"},
            "model": {"model_dim": 8, "feed_forward_dim": 16, "num_heads": 2, "num_layers": 1},
            "schedule": {"learning_rate": 1e-3, "warmup_steps": 3},
            "train": {"steps": 4, "validate_every": 2, "save_every": 2, "log_every": 1, "samples": 1},
            "diagnose": {"every": 2},
        }
        shutil.copytree(store.folder, self.origin / "store")
        shutil.rmtree(self.origin / "stores")
        (self.origin / "texts.txt").write_text("lu na pa\nti so\n\n")
        self._copy()
        run = Run(RunConfig.read(values, where="test"), self.place / "run")
        run.train(quiet=True)
        run.folder.add_cost(1.5, 10**8)
        run.average()
        run.folder.best.unlink()
        run.folder.best.symlink_to(run.folder.list_checkpoints()[0].name)  # another one than the latest
        with RunFolder(self.place / "run").claim() as folder:
            folder.set_status("finished", 4)
        run_command(self.place, DIAGNOSE)
        run.folder.diagnosed.path.write_text("as a comparison writes it")
        shutil.copytree(self.place / "run", self.origin / "run", symlinks=True)
        sys.addaudithook(_listen)
        self.expected: dict[str, Any] = {}
        for name, (arguments, results) in COMMANDS.items():
            self._copy()
            code, text = run_command(self.place, arguments)
            assert code in (0, 3), text  # 3: too few steps to be good, which is a result
            assert "warning" not in text.lower(), text
            self.expected[name] = results(self.place, text)

    @property
    def place(self) -> Path:
        """Where each trial's copy is: always the same path, which the config and the manifest name."""
        return self.root / "trial"

    def files(self) -> list[str]:
        """All files of the run folder and the store, and the links in it."""
        paths = (path for folder in ("run", "store") for path in (self.origin / folder).rglob("*"))
        return sorted(path.relative_to(self.origin).as_posix() for path in paths if path.is_symlink() or path.is_file())

    def cases(self, command: str | None = None) -> list[Case]:
        """All trials, or those of one command."""
        return [
            (file, way, each)
            for file in self.files()
            for way in (LINK_WAYS if (self.origin / file).is_symlink() else WAYS)
            for each in ([command] if command else COMMANDS)
        ]

    def judge(self, file: str, way: str, command: str) -> tuple[Verdict, str]:
        """How a trial ends, with the last line that was printed."""
        self._copy()
        damaged = damage(self.place, file, way, self.files())
        if not damaged:
            return "unchanged", ""
        arguments, results = COMMANDS[command]
        _opened.clear()
        try:
            code, text = run_command(self.place, arguments)
        except Exception as error:
            return "traceback", f"{type(error).__name__}: {error}"
        if "Traceback (most recent call last)" in text:
            return "traceback", text
        named = any(name in text for each in damaged for name in names_of(each))
        if code and code != 3:  # 3 is a result: a run that diverged
            return ("refused" if named else "silent"), text
        if named:
            return "warned", text
        same = results(self.place, text) == self.expected[command]
        if same and Path(file).name == ".lock":
            return "only a name", ""
        read = [each for each in damaged if os.path.realpath(self.place / each) in _opened]
        if same and not read and not (self.place / file).is_symlink():
            return "not read", ""
        return "silent", f"{'the same' if same else 'other'} results after reading {read}, code {code}: {text}"

    def _copy(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.origin, self.place, symlinks=True)


def names_of(file: str) -> list[str]:
    """The names by which a message may mention a file: its own, and that of its checkpoint."""
    path = Path(file)
    return [path.name, f"{path.parent.name}:"] if path.parent.name.startswith("step-") else [path.name]


def run_command(place: Path, arguments: list[str]) -> tuple[int, str]:
    """Exit code and output of `lamina`, run in this process in the folder `place`."""
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    code: Any = 0
    noted: list[warnings.WarningMessage] = []
    before = os.getcwd()
    os.chdir(place)
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            warnings.catch_warnings(record=True) as noted,  # pytest would take them from standard error
            patch.object(warnings, "formatwarning", warnings.formatwarning),
            patch.object(sys, "excepthook", sys.excepthook),
            patch.object(sys, "argv", ["lamina", *arguments]),
            patch("lamina.runs.diagnose.Extent", partial(Extent, depths=False)),  # other depths only take time
        ):
            warnings.simplefilter("always", UserWarning)  # in a new process each is shown; here only the first would be
            main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        os.chdir(before)
    assert isinstance(printed.buffer, io.BytesIO)
    text = printed.buffer.getvalue().decode() + "".join(
        f"warning: {each.message}\n" for each in noted if each.category is UserWarning
    )
    return (code if isinstance(code, int) else 1), text


def damage(place: Path, file: str, way: str, files: list[str]) -> list[str]:
    """Damage a file; returns the files that have changed. Which byte or file is chosen follows from its name."""
    path, chance = place / file, random.Random(f"{file} {way}")
    if way == "deleted":
        path.unlink()
        return [file]
    if path.is_symlink():
        other = next(each for each in files if (place / each).is_symlink() and each != file)
        targets = path.readlink(), (place / other).readlink()
        for link, target in ((path, targets[1]), (place / other, targets[0])):
            link.unlink()
            link.symlink_to(target)
        return [file, other]
    content = path.read_bytes()
    if way == "swapped":
        plain = [each for each in files if each != file and not (place / each).is_symlink()]
        other = chance.choice([each for each in plain if Path(each).suffix == Path(file).suffix] or plain)
        path.write_bytes((place / other).read_bytes())
        (place / other).write_bytes(content)
        return [file, other] if path.read_bytes() != content else []
    if not content:
        return []
    match way:
        case "truncated":
            damaged = content[: len(content) // 2]
        case "emptied":
            damaged = b""
        case _:
            at = chance.randrange(len(content))
            damaged = content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
    path.write_bytes(damaged)
    return [file]


def _trained(place: Path, text: str) -> Any:
    """The weights, and the lines of metrics and samples without the speed."""
    folder = RunFolder(place / "run")
    metrics = [{key: line[key] for key in line if key != "tokens_per_second"} for line in folder.metrics.read()]
    return as_lists(weights(place / "run")), metrics, list(folder.samples.read()), folder.latest.resolve().name


def _printed(place: Path, text: str) -> str:
    return text


def _reported(place: Path, text: str) -> str:
    return text + (place / "report.md").read_text()


def _diagnosed(place: Path, text: str) -> Any:
    """All values as text, in which NaN equals NaN, without the seconds that each diagnosis took."""
    return json.dumps([each | {"seconds": 0} for each in json.loads((place / "why.json").read_bytes())])


DIAGNOSE = ["diagnose", "run", "--seeds=1", "--batches=1", "--tokens=64", "--output=why.json"]
COMMANDS: dict[str, tuple[list[str], Callable[[Path, str], Any]]] = {
    "train": (["train", "run", "train.steps=5"], _trained),  # resumes for one more step
    "evaluate": (["evaluate", "run"], _printed),
    "generate": (["generate", "run", "--input=texts.txt", "--output-format=jsonl", "--beam=2"], _printed),
    "report": (["report", "run", "--output=report.md"], _reported),
    "diagnose": (DIAGNOSE, _diagnosed),
}
"""The arguments of each command, and a function that reads its results."""


def as_lists(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: value.tolist() for name, value in tensors.items()}


def run_trials(trial: DamageTrial, cases: Iterable[Case]) -> tuple[Counter[Verdict], list[str]]:
    """How many trials ended in each way, and a line for each that was silent or a traceback."""
    counts: Counter[Verdict] = Counter()
    bad = []
    for file, way, command in cases:
        verdict, text = trial.judge(file, way, command)
        counts[verdict] += 1
        if verdict in ("silent", "traceback"):
            bad.append(f"{verdict}: {command} with {file} {way}: {text}")
    return counts, bad
