"""The damage trial: every file of a run folder and a store is damaged in turn, and every command has to notice it.

A trial damages one file of a copy in one way and runs one command in this process. It is good if the command raises a
`UserError`, if it gives the results that it gives without damage (then the file does not matter to it), or if a warning
names the file. It is *silent* if the results differ without that, and a *traceback* if any other exception is raised.
"""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from lamina.api import diagnose_paths, load, train
from lamina.errors import UserError
from lamina.report.comparison_report import ComparisonReport
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run
from lamina.training.config import RunConfig
from support.small_runs import weights
from support.small_tasks import small_options, small_store

FLIPS = 20
WAYS = ("truncated", "deleted", "emptied", "swapped", *(f"flipped {number}" for number in range(FLIPS)))
Verdict = Literal["good", "silent", "traceback"]


class DamageTrial:
    """A run of four steps, a store, and the results of each command on them without damage."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.origin = root / "origin"
        store = small_store("translation", self.origin / "stores", 400, train=40, valid=4)
        values: dict[str, Any] = {
            "task": "translation",
            "task_options": small_options("translation", 8),
            "data": {"store": "store", "max_tokens": 200, "oversize": "alone"},
            "model": {"model_dim": 8, "feed_forward_dim": 16, "num_heads": 2, "num_layers": 1},
            "schedule": {"learning_rate": 1e-3, "warmup_steps": 3},
            "train": {"steps": 4, "validate_every": 2, "save_every": 2, "log_every": 1, "samples": 1},
            "diagnose": {"every": 2},
        }
        values["data"]["store"] = str(self.place / "store")
        shutil.copytree(store.folder, self.origin / "store")
        shutil.rmtree(self.origin / "stores")
        self._copy()
        Run(RunConfig.read(values, where="test"), self.place / "run").train(quiet=True)
        shutil.copytree(self.place / "run", self.origin / "run", symlinks=True)
        self.expected = {}
        for command in COMMANDS:
            self._copy()
            self.expected[command] = COMMANDS[command](self.place)

    @property
    def place(self) -> Path:
        """Where each trial's copy is: always the same path, which the config and the manifest name."""
        return self.root / "trial"

    def files(self) -> list[str]:
        """All files of the run folder and the store."""
        paths = (path for path in self.origin.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(path.relative_to(self.origin).as_posix() for path in paths)

    def cases(self) -> list[tuple[str, str, str]]:
        """File, way of damage and command of every trial."""
        return [(file, way, command) for file in self.files() for way in WAYS for command in COMMANDS]

    def judge(self, file: str, way: str, command: str) -> tuple[Verdict, str]:
        """How a trial ends, with the message or the difference."""
        self._copy()
        if not damage(self.place, file, way, self.files()):
            return "good", "nothing to damage"
        try:
            with warnings.catch_warnings(record=True) as noted:
                warnings.simplefilter("always")
                found = COMMANDS[command](self.place)
        except UserError as error:
            return ("good", str(error)) if str(error).strip() else ("traceback", "a UserError without a sentence")
        except Exception as error:
            return "traceback", f"{type(error).__name__}: {error}"
        if found == self.expected[command]:
            return "good", "the same results"
        named = [str(each.message) for each in noted if Path(file).name in str(each.message)]
        return ("good", named[0]) if named else ("silent", "other results")

    def _copy(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.origin, self.place, symlinks=True)


def damage(place: Path, file: str, way: str, files: list[str]) -> bool:
    """Damage a file; False where that leaves it as it was. Which byte or file is chosen follows from its name."""
    path, chance = place / file, random.Random(f"{file} {way}")
    content = path.read_bytes()
    if way == "deleted":
        path.unlink()
        return True
    if way == "swapped":
        alike = [each for each in files if each != file and Path(each).suffix == Path(file).suffix]
        other = place / chance.choice(alike or [each for each in files if each != file])
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
        return path.read_bytes() != content
    if not content:
        return False
    match way:
        case "truncated":
            damaged = content[: len(content) // 2]
        case "emptied":
            damaged = b""
        case _:
            at = chance.randrange(len(content))
            damaged = content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
    path.write_bytes(damaged)
    return True


def _train(place: Path) -> Any:
    """Resume for one more step."""
    run = train(place / "run", ["train.steps=5"], quiet=True)
    assert run.ended is not None
    return run.ended.state, run.ended.step, as_lists(weights(place / "run"))


def _evaluate(place: Path) -> Any:
    return load(place / "run").evaluate().scores


def _generate(place: Path) -> Any:
    return load(place / "run").generate(["lu na pa", "ti so", ""], beam=2)


def _report(place: Path) -> Any:
    report = ComparisonReport.read([place / "run"])
    report.save(place / "report.md", "")
    return (place / "report.md").read_text()


def _diagnose(place: Path) -> Any:
    extent = Extent(seeds=1, batches=1, tokens=64, depths=False)
    found = diagnose_paths([str(place / "run")], extent)
    return [[(each.key, each.series, each.facts) for each in diagnosis.measurements] for diagnosis in found]


COMMANDS: dict[str, Callable[[Path], Any]] = {
    "train": _train,
    "evaluate": _evaluate,
    "generate": _generate,
    "report": _report,
    "diagnose": _diagnose,
}


def as_lists(tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: value.tolist() for name, value in tensors.items()}


@dataclass
class Tally:
    """How many trials were good, and a line for each that was not."""

    good: int
    bad: list[str]


def run_trials(trial: DamageTrial, cases: Iterator[tuple[str, str, str]]) -> Tally:
    tally = Tally(0, [])
    for file, way, command in cases:
        verdict, text = trial.judge(file, way, command)
        if verdict == "good":
            tally.good += 1
        else:
            tally.bad.append(f"{verdict}: {command} with {file} {way}: {text}")
    return tally
