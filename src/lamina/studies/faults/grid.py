"""Runs the fault grid: every fault in both models, at initialisation and, where only training shows it, in a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

import torch

from lamina.diagnosis.examine import examine
from lamina.diagnosis.results import Finding
from lamina.diagnosis.subject import subject_of
from lamina.diagnosis.watching.watch import Watch
from lamina.errors import UserError
from lamina.studies.faults.injections import InjectedFault
from lamina.studies.faults.models import LAYER, Trial, gpt2_trial, plain_trial

MODELS: dict[str, Callable[[], Trial]] = {"plain torch": plain_trial, "GPT-2": gpt2_trial}
BATCHES, WATCHED_STEPS = 2, 30


@dataclass(frozen=True)
class FaultOutcome:
    """What the diagnosis said of one fault in one model, and what the fault does to training."""

    fault: str
    model: str
    named_by: str
    """The check that names the cause; empty if none does."""
    when: str
    """`start` or `watch`."""
    module: bool | None
    """Whether the right module is named; None where the fault has no place, or was not named."""
    others: tuple[str, ...]
    """Further checks with a warning or failure."""
    loss: float
    """The loss after some steps of training; NaN if it diverged or training was not tried."""


def run_fault(fault: InjectedFault, name: str, steps: int) -> FaultOutcome:
    trial = MODELS[name]()
    fault.inject(trial)
    findings, when = (watch(trial), "watch") if fault.watched else (diagnose(trial), "start")
    return judge(fault, name, trial, findings, when, train(fault, name, steps))


def run_healthy(name: str, steps: int) -> FaultOutcome:
    """The model without a fault: no check should find anything."""
    trial = MODELS[name]()
    others = tuple(dict.fromkeys(each.check for each in (*diagnose(trial), *watch(trial))))
    return FaultOutcome("none", name, "", "start", None, others, train(None, name, steps))


def diagnose(trial: Trial) -> list[Finding]:
    """The warnings and failures at initialisation; a model that is refused gives one finding, `refused`."""
    try:
        subject = subject_of(
            trial.model,
            [trial.batch(seed) for seed in range(BATCHES)],
            trial.loss,
            optimiser=trial.make_optimiser,
            warmup=trial.warmup,
        )
        found = examine(subject).findings
    except UserError as error:
        return [Finding(check="refused", severity="failure", sentence=str(error))]
    return [each for each in found if each.severity in ("warning", "failure")]


def watch(trial: Trial) -> list[Finding]:
    """The warnings and failures of a watch over the first steps."""
    optimiser = trial.make_optimiser(trial.model)
    with Watch(trial.model, optimiser, every=5, on_warning=lambda alarm: None) as watching:
        steps_of(trial, optimiser, WATCHED_STEPS)
    return [each for each in watching.diagnosis().findings if each.severity in ("warning", "failure")]


def train(fault: InjectedFault | None, name: str, steps: int) -> float:
    """The mean loss over the last five steps of a short training."""
    if not steps:
        return float("nan")
    trial = MODELS[name]()
    if fault is not None:
        fault.inject(trial)
    losses = steps_of(trial, trial.make_optimiser(trial.model), steps)
    return sum(losses[-5:]) / 5


def steps_of(trial: Trial, optimiser: torch.optim.Optimizer, steps: int) -> list[float]:
    """Train with a linear warm-up and clipping; returns the losses."""
    rates = [group["lr"] for group in optimiser.param_groups]
    losses: list[float] = []
    for step in range(steps):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, (step + 1) / max(1, trial.warmup))
        batch = trial.batch(step)
        output = trial.model(**batch) if isinstance(batch, dict) else trial.model(*batch)
        loss = trial.loss(output, batch)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(trial.model.parameters(), trial.clip)
        optimiser.step()
        losses.append(loss.item())
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate
    return losses


def judge(
    fault: InjectedFault, name: str, trial: Trial, findings: Sequence[Finding], when: str, loss: float
) -> FaultOutcome:
    """Compare the findings with what the fault should be called."""
    naming = [each for each in findings if each.check in fault.checks]
    others = tuple(dict.fromkeys(each.check for each in findings if each.check not in fault.checks))
    module = any(names_place(fault, trial, each) for each in naming) if naming and fault.place else None
    return FaultOutcome(
        fault.name, name, naming[0].check if naming else "", when if naming else "", module, others, loss
    )


def names_place(fault: InjectedFault, trial: Trial, finding: Finding) -> bool:
    """Whether a finding names the module, or the layer where that is all there is to name."""
    text = f"{finding.location.module or ''} {finding.sentence}"
    layers = trial.names["layer"].rpartition(".")[0]
    match fault.place:
        case "number":
            return finding.location.layer == LAYER + 1
        case "below":  # the layers before the detached one
            return any(f"{layers}.{number}" in text for number in range(LAYER))
        case "attention":
            return f"{layers}." in text and ".att" in text
        case "final":
            return (finding.location.stack or "") in ("stack", trial.names["final"])
        case place:
            assert place is not None
            return trial.names[place] in text


def summary(outcomes: Iterable[FaultOutcome]) -> str:
    """The rates of the grid."""
    faults = [each for each in outcomes if each.fault != "none"]
    named = [each for each in faults if each.named_by]
    placed = [each for each in named if each.module is not None]
    right = sum(bool(each.module) for each in placed)
    return (
        f"{len(named)} of {len(faults)} faults named with their cause ({len(named) / max(1, len(faults)):.0%}); the "
        f"right module in {right} of the {len(placed)} of these that lie in one ({right / max(1, len(placed)):.0%})"
    )


def table(outcomes: Sequence[FaultOutcome]) -> str:
    """A Markdown table, a row for every fault with both models."""
    models = list(dict.fromkeys(each.model for each in outcomes))
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
    if found.fault == "none":
        named = "nothing" if not found.others else f"false alarms: {', '.join(found.others)}"
    else:
        named = found.named_by + (" (watch)" if found.when == "watch" else "") or "not named"
    module = {None: "", True: "yes", False: "no"}[found.module]
    return [named, module, f"{found.loss:.2f}" if isfinite(found.loss) else "diverged"]
