"""Every name on a page, made from typed fields: of lines, panels, maps, facts, checks, models and remedies.

Code that chooses what is shown compares fields. Text is made here, when the choice has been made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lamina.diagnosis.measurement import Fact, Grid, Series
from lamina.diagnosis.results import Action, Code, Diagnosis, Remedy, SchemeTrait, Setting
from lamina.formatting import count, toml_value

FIELDS = (
    "stack",
    "module",
    "layer",
    "sublayer",
    "sublayer_kind",
    "matrix",
    "quantity",
    "stream",
    "stage",
)
"""The fields that say where, what and when, in the order in which a name has them."""
ROLES = {"measured": "", "predicted": "theory", "bound": "bound"}
FIRST_STREAM = "first stream"
OTHER_MODULES = "other modules"
NOUNS = {"seeds": "seed", "batches": "batch", "steps": "step"}


def field_value(item: Series | Grid | Fact, field: str) -> Any:
    """One of `FIELDS`; None where it does not apply."""
    return getattr(item, field) if field in ("quantity", "stage") else getattr(item.location, field)


def name_of(item: Series | Grid | Fact, fields: Collection[str] = FIELDS) -> str:
    """These fields as text: `decoder outer at the start`; empty where none of them is set."""
    texts = (_field_text(item, field) for field in FIELDS if field in fields)
    return " ".join(filter(None, texts))


def _field_text(item: Series | Grid | Fact, field: str) -> str:
    value = field_value(item, field)
    if value is None or value == "":
        return ""
    match field:
        case "layer":
            return f"layer {value}"
        case "sublayer":
            return f"sub-layer {value}"
        case "stream" if not item.quantity:
            return f"stream {value}"
        case _:
            return str(value)


def prediction_name(prediction: Series, of: str = "") -> str:
    """`outer, theory: post-LN`, where `of` names the line that is predicted; `bound: at most`; `theory`."""
    role = ROLES[prediction.role]
    text = f"{role}: {prediction.quantity}" if prediction.quantity else role
    return f"{of}, {text}" if of else text


def fact_name(fact: Fact) -> str:
    """`decoder outer first/last`, `noise R² of n`, `encoder slope, at the start`."""
    place = name_of(fact, [field for field in FIELDS if field != "stage"])
    name = f"{place} {fact.name}" if place else fact.name
    return name if fact.stage is None else f"{name}, {fact.stage}"


def check_name(key: str) -> str:
    """The key of a check or measure as words."""
    return key.replace("-", " ")


def scheme_name(schemes: Sequence[str]) -> str:
    """`b2t`, or `post-ln/pre-ln` where encoder and decoder differ."""
    return "/".join(dict.fromkeys(schemes))


def variant_name(schemes: Sequence[str], settings: Sequence[tuple[str, str]] = ()) -> str:
    """`b2t`, or `b2t, learning_rate = 0.001` where models of a scheme differ in their settings."""
    return ", ".join([scheme_name(schemes), *(f"{key} = {value}" for key, value in settings)])


def depth_name(layers: Sequence[int]) -> str:
    """`12`, or `18-18` for an encoder and a decoder."""
    return "-".join(map(str, layers))


def distinct_names(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """The models' names; where some are the same, with the stage, and with a number where that does not help."""
    names = [each.name for each in diagnoses]
    if len(set(names)) < len(names):
        names = [_name_with_stage(each) for each in diagnoses]
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return distinct


def _name_with_stage(diagnosis: Diagnosis) -> str:
    if diagnosis.spread_over == "steps":
        return f"{diagnosis.name} during training"
    return diagnosis.name if diagnosis.stage.name == "given" else f"{diagnosis.name} {diagnosis.stage}"


def conditions(diagnosis: Diagnosis) -> str:
    """The stage and the samples of a diagnosis: `at the start, mean and standard deviation over 5 seeds`."""
    repeats = count(diagnosis.repeats, NOUNS[diagnosis.spread_over])
    if diagnosis.spread_over == "steps":
        step = diagnosis.stage.step
        return "not watched at any step" if step is None else f"watched at {repeats}, last at step {step:,}"
    over = "mean and standard deviation over" if diagnosis.repeats > 1 else "on"
    return f"{diagnosis.stage}, {over} {repeats}"


@dataclass(frozen=True)
class RemedyText:
    """A remedy as words, followed by alternatives that are printed as code."""

    words: str = ""
    code: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`model.residual = "b2t", "pre-ln" or "resi-dual"`."""
        *others, last = self.code or ("",)
        alternatives = f"{', '.join(others)} or {last}" if others else last
        return " ".join(filter(None, (self.words, alternatives)))


FOREIGN_SETTINGS = {
    "schedule.learning_rate": "torch.optim.AdamW(model.parameters(), lr={value})",
    "schedule.warmup_steps": "torch.optim.lr_scheduler.LinearLR(optimizer, 1 / {value}, total_iters={value})",
    "train.clip_norm": "torch.nn.utils.clip_grad_norm_(model.parameters(), {value})",
    "train.precision": "torch.autocast(device, dtype=torch.bfloat16)",
    "optimiser.betas": "torch.optim.AdamW(model.parameters(), betas=({value}))",
    "optimiser.weight_decay": "torch.optim.AdamW(model.parameters(), weight_decay={value})",
    "optimiser.eps": "torch.optim.AdamW(model.parameters(), eps={value})",
}
"""The line of PyTorch that has the effect of a config key, for models that are not Lamina's."""
BOUNDED = {
    "schedule.learning_rate": "a learning rate of",
    "schedule.warmup_steps": "a warm-up of",
    "optimiser.eps": "an ε of",
    "optimiser.weight_decay": "a weight decay of",
}
BOUNDS = {"<": "at most", ">": "at least", "=": ""}


def _foreign_setting(remedy: Setting) -> RemedyText:
    value = toml_value(remedy.value).strip("[]").strip('"')
    line = FOREIGN_SETTINGS.get(remedy.key)
    if line is None:
        return RemedyText(code=(f"{remedy.key} {remedy.relation} {toml_value(remedy.value)}",))
    bound = BOUNDS[remedy.relation]
    words = BOUNDED.get(remedy.key, "")
    return RemedyText(f"{words} {bound} {value}:" if words and bound else "", (line.format(value=value),))


def remedy_text(remedy: Remedy, *, own_model: bool) -> RemedyText:
    """A remedy as a line of a config, or of PyTorch; `own_model`: whether it is Lamina's own, which has a config."""
    match remedy:
        case Setting() if not own_model:
            return _foreign_setting(remedy)
        case Setting():
            return RemedyText(code=(f"{remedy.key} {remedy.relation} {toml_value(remedy.value)}",))
        case SchemeTrait(schemes=()):
            return RemedyText("a residual scheme that avoids it; none is installed")
        case SchemeTrait() if own_model:
            first, *others = map(toml_value, remedy.schemes)
            return RemedyText(code=(f"model.residual = {first}", *others))
        case SchemeTrait():
            first, *others = (f'"{name}"' for name in remedy.schemes)
            return RemedyText(
                "another residual scheme; for Hugging Face models", (f"lamina.rewire(model, {first})", *others)
            )
        case Code():
            return RemedyText(f"{remedy.words}:" if remedy.words else "", (remedy.line,))
        case Action():
            return RemedyText(remedy.text)
