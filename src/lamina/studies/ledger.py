"""The ledger: the stored result of every study, one JSON file each, with the verdicts on its claims.

A result belongs to a study's `version`, and to the result versions of the code that trained its runs. One of other
versions is stale: it is shown as such until the study is run again.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from pydantic import ValidationError

from lamina.diagnosis.measurement import TypedResult
from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.files.progress import Progress, no_progress
from lamina.studies.engines.choose import OpenEngine
from lamina.studies.order import cheapest_first
from lamina.studies.papers import STUDIES
from lamina.studies.result_table import Label, ResultRow, ResultTable
from lamina.studies.reuse import result_versions
from lamina.studies.samples import SampleSeed
from lamina.studies.shared_runs.numbers import machine
from lamina.studies.shared_runs.training import SharedRuns
from lamina.studies.study import JudgedClaim, Scale, Study, StudyContext
from lamina.studies.verdicts import Verdict
from lamina.version import __version__

DIGITS = 6
"""The significant digits of stored values; judgements use the stored values too, so that a file can be judged again."""


class StoredSample(TypedResult):
    """The values of one quantity under one condition: the rows that differ in the seed only."""

    quantity: str
    labels: dict[str, Label]
    seeds: tuple[SampleSeed, ...]
    values: tuple[float | None, ...]


class StudyResult(TypedResult):
    """The result of a study with everything that a reader needs to judge and to repeat it."""

    format: Literal["lamina-study"] = "lamina-study"
    study: str
    scale: Scale
    version: int
    """The `version` of the study that made it."""
    made: date
    seconds: float
    machine: str
    versions: dict[str, str]
    components: dict[str, int] = {}
    """The result versions of the code that trained its runs, by component."""
    runs: tuple[str, ...] = ()
    """The keys of its runs in `runs.jsonl`."""
    missing: int = 0
    """The number of runs that had not been trained yet: some conditions have fewer seeds, or none."""
    verdicts: dict[str, Verdict]
    """The verdicts by claim."""
    samples: tuple[StoredSample, ...]

    @cached_property
    def results(self) -> ResultTable:
        return ResultTable(
            ResultRow(quantity=each.quantity, value=value, seed=seed, labels=each.labels)
            for each in self.samples
            for seed, value in zip(each.seeds, each.values, strict=True)
        )

    @property
    def is_stale(self) -> bool:
        """Whether the study, or code that its runs depend on, has changed since."""
        study = STUDIES[self.study]()
        return self.version != study.version or self.components != run_versions(study, self.scale)

    @property
    def is_up_to_date(self) -> bool:
        """Whether nothing is to be measured again or trained."""
        return not self.is_stale and not self.missing

    def judge(self) -> list[JudgedClaim]:
        """The verdicts of the study's claims on these results, by the code as it is now."""
        return STUDIES[self.study]().judge(self.results)

    def write(self, folder: Path) -> Path:
        """Write it to `<folder>/<study>.<scale>.json`, with a line for each sample."""
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.study}.{self.scale}.json"
        head = self.model_dump_json(indent=1, exclude={"samples"}).removesuffix("\n}")
        samples = ",\n".join(f"  {each.model_dump_json()}" for each in self.samples)
        write_file(file, f'{head},\n "samples": [\n{samples}\n ]\n}}\n'.encode())
        return file

    @classmethod
    def read(cls, file: Path) -> StudyResult:
        try:
            return cls.model_validate_json(file.read_bytes())
        except OSError as error:
            raise UserError(f"{file}: {error.strerror}") from error
        except ValidationError as error:
            raise UserError(f"{file}: not the result of a study; make it again with lamina study") from error


def run_study(
    name: str,
    folder: Path,
    scale: Scale = "tiny",
    progress: Progress = no_progress,
    known: Sequence[Path] = (),
    *,
    train: bool = True,
    engine: OpenEngine | None = None,
) -> StudyResult:
    """Make all measurements of a study and judge its claims. Data and runs are kept in `folder`.

    known: further folders with the numbers of runs, which need not be trained again.
    train: whether runs are trained; otherwise the result is that of the runs that have ended.
    engine: makes the engine that trains them; by default processes of this machine.
    """
    study, began = STUDIES[name](), time.perf_counter()
    shared = shared_runs(folder, scale, progress, known, train=train, engine=engine)
    samples = tuple(stored(study.measure(StudyContext(folder, scale, progress, shared))))
    result = StudyResult(
        study=name,
        scale=scale,
        version=study.version,
        made=date.today(),
        seconds=round(time.perf_counter() - began, 1),
        machine=machine(),
        versions={"lamina": __version__, "torch": torch.__version__, "python": platform.python_version()},
        components=run_versions(study, scale),
        runs=tuple(dict.fromkeys(each.key for each in shared.seeded(study))),
        missing=shared.count_missing(study),
        verdicts={},
        samples=samples,
    )
    verdicts = {each.claim.id: each.verdict for each in result.judge()}
    return result.model_copy(update={"verdicts": verdicts})


def shared_runs(
    folder: Path,
    scale: Scale,
    progress: Progress = no_progress,
    known: Sequence[Path] = (),
    *,
    train: bool = True,
    engine: OpenEngine | None = None,
) -> SharedRuns:
    """The runs of all studies, which are measured by every study that measures trained models."""
    measuring = [each() for each in STUDIES.members.values() if each().measures_trained]
    return SharedRuns(folder, scale, known, measuring, engine, progress, train)


def run_all(
    folder: Path,
    scale: Scale = "tiny",
    known: Sequence[Path] = (),
    *,
    train: bool = True,
    engine: OpenEngine | None = None,
) -> Iterator[tuple[str, StudyResult | UserError]]:
    """Run every study that has no up-to-date result in one of the folders; yields each with its result, or why there is
    none.

    Studies that decide many claims at little cost come first.
    """
    results = [result for each in (folder, *known) for result in read_ledger(each)]
    done = {each.study for each in results if each.scale == scale and each.is_up_to_date}
    for name in cheapest_first(set(STUDIES) - done, scale):
        try:
            result = run_study(name, folder, scale, known=known, train=train, engine=engine)
        except UserError as error:
            yield name, error
        else:
            result.write(folder)
            yield name, result


def prepare_runs(name: str, folder: Path, scale: Scale, known: Sequence[Path] = ()) -> list[Path]:
    """Make the folders of the runs of a study, or of all, that have not ended yet; nothing is trained."""
    shared = shared_runs(folder, scale, known=known)
    names = sorted(STUDIES) if name == "all" else [name]
    return list(dict.fromkeys(path for each in names for path in shared.prepare(STUDIES[each]())))


def run_versions(study: Study, scale: Scale) -> dict[str, int]:
    """The result versions of the code that trains the runs of a study."""
    found: dict[str, int] = {}
    for each in study.runs(scale):
        found |= result_versions(each.config(each.seeds[0]))
    return dict(sorted(found.items()))


def read_ledger(folder: Path) -> list[StudyResult]:
    """All results in a folder, in the order of the studies."""
    found = [StudyResult.read(file) for file in sorted(folder.glob("*.json"))]
    return [each for each in found if each.study in STUDIES]


def stored(rows: Iterable[ResultRow]) -> Iterable[StoredSample]:
    """The rows as they are stored: those that differ in the seed only together, with few digits."""
    groups: dict[tuple[str, tuple[tuple[str, Label], ...]], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault((row.quantity, tuple(sorted(row.labels.items()))), []).append(row)
    for (quantity, _), those in groups.items():
        yield StoredSample(
            quantity=quantity,
            labels=those[0].labels,
            seeds=tuple(row.seed for row in those),
            values=tuple(None if row.value is None else float(f"{row.value:.{DIGITS}g}") for row in those),
        )
