"""The table of the fault grid, its rates, and the file that holds its outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path

from pydantic import TypeAdapter

from lamina.files.atomic import write_file
from lamina.studies.faults.grid import NO_FAULT, FaultOutcome

OUTCOMES = TypeAdapter(list[FaultOutcome], config={"ser_json_inf_nan": "constants"})


def write_outcomes(outcomes: Sequence[FaultOutcome], file: Path) -> None:
    write_file(file, OUTCOMES.dump_json(list(outcomes), indent=1))


def read_outcomes(file: Path) -> list[FaultOutcome]:
    return OUTCOMES.validate_json(file.read_bytes())


def summary(outcomes: Iterable[FaultOutcome]) -> str:
    """The rates of the grid."""
    outcomes = list(outcomes)
    faults = [each for each in outcomes if each.fault != NO_FAULT]
    spoilt = [each for each in faults if each.spoilt]
    named = [each for each in faults if each.named_by]
    placed = [each for each in named if each.module is not None]
    right = sum(bool(each.module) for each in placed)
    healthy = [each for each in outcomes if each.fault == NO_FAULT]
    lines = [
        f"{_share(len(named), len(faults))} of the faults are named with their cause",
        f"the right module in {_share(right, len(placed))} of these that lie in one",
        f"false alarms on {_share(sum(bool(each.others) for each in healthy), len(healthy))} trials without a fault",
    ]
    if any(each.spoilt is not None for each in faults):
        lines.append(
            f"{_share(len(spoilt), len(faults))} spoil the short training; "
            f"of these {_share(sum(bool(each.named_by) for each in spoilt), len(spoilt))} are named"
        )
    return "\n".join(f"- {each}" for each in lines)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / max(1, whole):.0%})"


def table(outcomes: Sequence[FaultOutcome]) -> str:
    """A Markdown table, a row for every fault with both models."""
    models = list(dict.fromkeys(each.model for each in outcomes if each.fault != NO_FAULT))
    rows = [["fault", *(f"{model}: {what}" for model in models for what in ("named by", "module", "loss"))]]
    for fault in dict.fromkeys(each.fault for each in outcomes):
        cells = [fault]
        for model in models:
            found = next((each for each in outcomes if (each.fault, each.model) == (fault, model)), None)
            cells += ["", "", ""] if found is None else _cells(found)
        rows.append(cells)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])


def _cells(found: FaultOutcome) -> list[str]:
    if found.fault == NO_FAULT:
        named = "nothing" if not found.others else f"false alarms: {', '.join(found.others)}"
    else:
        named = found.named_by + (" (watch)" if found.when == "watch" else "") or "not named"
    module = {None: "", True: "yes", False: "no"}[found.module]
    return [named, module, _loss(found)]


def _loss(found: FaultOutcome) -> str:
    """The loss, in bold where the fault has spoilt training."""
    if found.loss is None:
        return ""
    text = f"{found.loss:.2f}" if isfinite(found.loss) else "diverged"
    return f"**{text}**" if found.spoilt else text
