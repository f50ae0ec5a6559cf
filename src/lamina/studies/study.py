"""The base class of studies: one table or figure of a paper, with the claims that the paper makes about it.

A study is one file of `papers`, discovered by its name (`xiong_fig3.py` holds `xiong-fig3`). It declares what is
measured (`measure`), how that is shown in the paper's layout (`exhibits`), and each claim as a method that returns a
verdict on the results:

    @claim("X-13", "last-layer gradients are larger in post-LN", paper="figure 3")
    def larger_gradients(self, results: ResultTable) -> Verdict:
        post, pre = (results.sample("gradient", scheme=scheme) for scheme in ("post-ln", "pre-ln"))
        return above("gradient", post, pre)

A study that trains models declares them (`runs`); studies that declare the same run share it. What must be measured of
a trained model, and not of its losses and scores, is measured by `measure_trained` before the weights are deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from lamina.diagnosis.measurement import Axes, Grid
from lamina.files.progress import Progress, no_progress
from lamina.report.figures.panels import Panel
from lamina.report.tables import Table
from lamina.runs.run import Run
from lamina.studies.result_table import Missing, ResultRow, ResultTable
from lamina.studies.shared_runs.declared import StudyRun
from lamina.studies.shared_runs.training import SharedRuns
from lamina.studies.verdicts import Verdict, undecided

Scale = Literal["micro", "tiny", "small", "paper"]
"""`tiny` takes minutes on two cores with embedded data, `small` a day on one GPU, and `paper` has the paper's sizes and
data. `micro` is for tests: it runs every line of a study and decides nothing."""
Paper = Literal["xiong", "xiong-supplement", "b2t", "residual", "admin"]
PAPERS: dict[Paper, str] = {
    "xiong": "Xiong et al. 2020, On Layer Normalization in the Transformer Architecture",
    "xiong-supplement": "Xiong et al. 2020, supplement",
    "b2t": "Takase et al. 2023, B2T Connection",
    "residual": "Xie et al. 2023, ResiDual",
    "admin": "Liu et al. 2020, Understanding the Difficulty of Training Transformers",
}


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and the predicate that decides it."""

    id: str
    statement: str
    """The claim in our words."""
    paper: str
    """The paper's number or figure, printed beside ours; compared with it at scale `paper` only."""
    judge: Callable[[Any, ResultTable], Verdict]
    remark: str = ""
    """What is known from elsewhere, or where the papers disagree."""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict


Value = TypeVar("Value")
Method = TypeVar("Method", bound=Callable[[Any, ResultTable], Verdict])


def claim(id: str, statement: str, *, paper: str, remark: str = "") -> Callable[[Method], Method]:
    """Mark a method of a study as the predicate of a claim."""

    def mark(method: Method) -> Method:
        method.claim = Claim(id, statement, paper, method, remark)  # type: ignore[attr-defined]
        return method

    return mark


@dataclass(frozen=True)
class Exhibit:
    """A figure or table of a study, in the paper's layout."""

    title: str
    caption: str
    panels: Sequence[Panel] = ()
    axes: Axes | None = None
    """The axes of the panels, which all share."""
    maps: Mapping[str, Grid] = field(default_factory=dict)
    """Matrices by title."""
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class StudyContext:
    """The scale at which a study is run, the progress bar, and the runs that studies share."""

    folder: Path
    """The folder for prepared data and runs."""
    scale: Scale = "tiny"
    progress: Progress = no_progress
    shared: SharedRuns | None = None

    @cached_property
    def runs(self) -> SharedRuns:
        """The runs of all studies."""
        return self.shared or SharedRuns(self.folder, self.scale, progress=self.progress)

    def choose(self, *, micro: Value, otherwise: Value) -> Value:
        """A smaller value for tests."""
        return micro if self.scale == "micro" else otherwise


class Study(ABC):
    """One table or figure of a paper."""

    name: ClassVar[str]
    """The name of its file, with `-` for `_`."""
    paper: ClassVar[Paper]
    title: ClassVar[str]
    version: ClassVar[int] = 1
    """The result version: raised when the numbers of the study change; a stored result of another version is stale."""
    substitutions: ClassVar[tuple[str, ...]] = ()
    """What stands for the paper's data and sizes at scale `tiny`."""
    claims: ClassVar[tuple[Claim, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")
        found = [value.claim for value in vars(cls).values() if hasattr(value, "claim")]
        cls.claims = tuple(sorted(found, key=lambda each: each.id))

    def runs(self, scale: str) -> Sequence[StudyRun]:
        """The runs that the study needs."""
        return ()

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        """Measure everything that the claims and exhibits need: by default, the results of the runs."""
        yield from context.runs.rows(self)

    def measure_trained(self, run: Run) -> Iterator[ResultRow]:
        """Measure the trained model of a run; the labels of the run are added to the rows."""
        yield from ()

    @property
    def measures_trained(self) -> bool:
        """Whether the study measures the trained models of its runs."""
        return type(self).measure_trained is not Study.measure_trained

    @abstractmethod
    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        """The figures and tables of the paper, made from the results."""

    def judge(self, results: ResultTable) -> list[JudgedClaim]:
        """The verdict on every claim. One whose values are missing is undecided.

        If no run of the study got better than a unigram model, the runs were too short to decide anything.
        """
        trained = results.where("trained")
        if trained and all(row.value is None for row in trained):
            return [JudgedClaim(each, undecided("all runs failed: too short to decide")) for each in self.claims]
        judged = []
        for each in self.claims:
            try:
                verdict = each.judge(self, results)
            except Missing as reason:
                verdict = undecided(str(reason))
            judged.append(JudgedClaim(each, verdict))
        return judged
