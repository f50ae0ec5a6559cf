"""Runs the fault grid: every fault in both models, at initialisation and, where only training shows it, in a watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lamina.diagnosis.examine import examine
from lamina.diagnosis.results import Finding
from lamina.diagnosis.subject import subject_of
from lamina.diagnosis.watching.watch import Watch
from lamina.errors import UserError
from lamina.studies.faults.injections import InjectedFault
from lamina.studies.faults.models import LAYER, Trial, gpt2_trial, plain_trial
from lamina.studies.faults.short_training import steps_of, trained_loss

MODELS: dict[str, Callable[[int], Trial]] = {"plain torch": plain_trial, "GPT-2": gpt2_trial}
BATCHES, WATCHED_STEPS, SEED = 2, 30, 1
NO_FAULT = "none"
REFUSED = "refused"
"""Stands for a check where a model is refused, with the reason."""


@dataclass(frozen=True)
class FaultOutcome:
    """What the diagnosis said of one fault in one model, and what the fault does to training."""

    fault: str
    model: str
    checks: tuple[str, ...] = ()
    """The checks that name the cause."""
    named_by: str = ""
    """The check that did; empty if none does."""
    when: str = ""
    """`start` or `watch`."""
    module: bool | None = None
    """Whether the right module is named; None where the fault has no place, or was not named."""
    others: tuple[str, ...] = ()
    """Further checks with a warning or failure."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The value of the worst finding of every check."""
    loss: float | None = None
    """The loss of the next word after a short training, infinite if it diverged; None if training was not tried."""
    spoilt: bool | None = None
    """Whether that loss is higher than without a fault."""


def run_fault(fault: InjectedFault, name: str, steps: int = 0, limit: float = 0.0) -> FaultOutcome:
    """Diagnose a fault; `limit` is the loss after `steps` above which it has spoilt training."""
    trial = MODELS[name](SEED)
    fault.inject(trial)
    findings, when = (watch(trial), "watch") if fault.watched else (diagnose(trial), "start")
    loss = None
    if steps:
        trained = MODELS[name](SEED)
        fault.inject(trained)
        loss = trained_loss(trained, steps)
    return judge(fault, name, trial, findings, when, loss, None if loss is None else loss > limit)


def run_healthy(name: str, seed: int = SEED, loss: float | None = None) -> FaultOutcome:
    """The model without a fault: no check should find anything."""
    findings = [*diagnose(MODELS[name](seed)), *watch(MODELS[name](seed))]
    others = tuple(dict.fromkeys(each.check for each in findings if _is_alarm(each)))
    return FaultOutcome(NO_FAULT, name, others=others, values=worst_values(findings), loss=loss)


def diagnose(trial: Trial) -> list[Finding]:
    """The findings at initialisation; a model that is refused gives one finding, `refused`."""
    try:
        subject = subject_of(
            trial.model,
            [trial.batch(seed) for seed in range(BATCHES)],
            trial.loss,
            optimiser=trial.make_optimiser,
            warmup=trial.warmup,
        )
        return list(examine(subject).findings)
    except UserError as error:
        return [Finding(check=REFUSED, severity="failure", sentence=str(error))]


def watch(trial: Trial) -> list[Finding]:
    """The findings of a watch over the first steps."""
    optimiser = trial.make_optimiser(trial.model)
    with Watch(trial.model, optimiser, every=5, on_warning=lambda alarm: None) as watching:
        steps_of(trial, optimiser, WATCHED_STEPS)
    return list(watching.diagnosis().findings)


def judge(
    fault: InjectedFault,
    name: str,
    trial: Trial,
    findings: Sequence[Finding],
    when: str,
    loss: float | None = None,
    spoilt: bool | None = None,
) -> FaultOutcome:
    """Compare the findings with what the fault should be called."""
    alarms = [each for each in findings if _is_alarm(each)]
    naming = [each for each in alarms if each.check in fault.checks]
    return FaultOutcome(
        fault=fault.name,
        model=name,
        checks=fault.checks,
        named_by=naming[0].check if naming else "",
        when=when if naming else "",
        module=any(names_place(fault, trial, each) for each in naming) if naming and fault.place else None,
        others=tuple(dict.fromkeys(each.check for each in alarms if each.check not in fault.checks)),
        values=worst_values(findings),
        loss=loss,
        spoilt=spoilt,
    )


def worst_values(findings: Sequence[Finding]) -> dict[str, float]:
    """The value of the worst finding of every check; findings come with the worst first."""
    found: dict[str, float] = {}
    for each in findings:
        if each.value is not None:
            found.setdefault(each.check, each.value)
    return found


def _is_alarm(finding: Finding) -> bool:
    return finding.severity in ("warning", "failure")


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
