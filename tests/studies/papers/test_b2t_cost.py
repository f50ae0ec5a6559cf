"""b2t-cost: its claim on made-up results, and how costs are measured."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from lamina.studies.papers.b2t_cost import (
    DEPTHS,
    SCHEMES,
    B2TCost,
    TrainingStep,
    count,
    interleaved_medians,
    saved_bytes,
)
from lamina.studies.result_table import ResultRow, ResultTable, row
from support.made_results import Change, changed, check_claims, outcomes, rows


def as_in_the_paper() -> Iterator[ResultRow]:
    for scheme in SCHEMES:
        for depth in DEPTHS:
            labels = {"scheme": scheme, "depth": depth}
            extra = 100 if scheme in ("dlcl", "admin") else 0
            yield row("parameters", 1000 + extra, **labels)
            yield row("extra parameters", extra, **labels)
            yield row("memory", 1000 + extra, **labels)
            yield from rows("seconds", 1.1 if extra else 1.0, **labels)


PAPER = ResultTable(as_in_the_paper())
BREAKING: dict[str, tuple[str, Change]] = {
    "B-28": ("seconds", lambda row: 1.2 if row.labels["scheme"] == "b2t" else 1.0),
}


def test_claims() -> None:
    check_claims(B2TCost, PAPER, BREAKING)
    more = changed(PAPER, "extra parameters", lambda row: 1.0, scheme="b2t")
    assert outcomes(B2TCost, more)["B-28"] == "does not hold"


def test_the_table_is_relative_to_post_ln() -> None:
    (exhibit,) = B2TCost().exhibits(PAPER)
    by_scheme = {cells[0]: cells[1:] for cells in exhibit.tables[0].rows}
    assert by_scheme["post-ln"] == ("1", "1", "+0")
    assert by_scheme["admin"] == ("1.1", "1.1", "+100")


def loss(model: nn.Module) -> torch.Tensor:
    return model(torch.ones(3, 4)).square().mean()


def test_steps_take_turns_and_leave_the_weights_as_they_are() -> None:
    order: list[str] = []

    class Recorded(TrainingStep):
        def __init__(self, name: str, model: nn.Module) -> None:
            super().__init__(model, loss)
            self.name = name

        def seconds(self) -> float:
            order.append(self.name)
            return super().seconds()

    models = {name: nn.Linear(4, 4) for name in "ab"}
    before = {name: model.weight.clone() for name, model in models.items()}
    found = interleaved_medians({name: Recorded(name, model) for name, model in models.items()}, rounds=2)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert set(found) == {"a", "b"}
    assert all(torch.equal(model.weight, before[name]) for name, model in models.items())


def test_saved_tensors_are_counted_without_weights() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    assert count(model) == 40
    assert saved_bytes(model, loss) == 4 * (3 * 4 + 3 * 4 + 3 * 4)  # the inputs of both matrices and of the square
