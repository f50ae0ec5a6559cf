"""The table of faults: the function that injects each, the checks that name its cause, and where it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lamina.studies.faults import model_faults, target_faults, training_faults
from lamina.studies.faults.models import LEARNING_RATE, Trial


@dataclass(frozen=True)
class InjectedFault:
    """An everyday fault."""

    name: str
    inject: Callable[[Trial], None]
    checks: tuple[str, ...]
    """The checks whose finding names the cause; `refused` for a model that is not measured, with the reason."""
    place: str | None = None
    """The name, in `Trial.names`, of the module that the finding should name; None where the fault has no place."""
    watched: bool = False
    """Whether only training can show it."""


FAULTS = (
    InjectedFault("frozen layer", model_faults.freeze, ("untrained",), "layer"),
    InjectedFault("detached after layer 2", model_faults.detach, ("untrained",), "below"),
    InjectedFault("unused module", model_faults.add_unused, ("untrained",), "layer"),
    InjectedFault("norm with gain 0", model_faults.zero_gain, ("untrained",), "layer"),
    InjectedFault("no final norm", model_faults.without_final_norm, ("structure",), "final"),
    InjectedFault(
        "initialisation ×10", partial(model_faults.scale_weights, factor=10.0), ("weight-scale", "initial-loss")
    ),
    InjectedFault("initialisation ×0.01", partial(model_faults.scale_weights, factor=0.01), ("weight-scale",)),
    InjectedFault(
        "learning rate ×100",
        partial(training_faults.optimise, lr=100 * LEARNING_RATE),
        ("learning-rate", "step-size", "update-band"),
    ),
    InjectedFault("learning rate 1e-8", partial(training_faults.optimise, lr=1e-8), ("update-band",)),
    InjectedFault(
        "deep post-norm, no warm-up",
        training_faults.post_norm,
        ("amplification", "vanishing", "learning-rate", "step-size"),
    ),
    InjectedFault("Adam's ε 1e-2", partial(training_faults.optimise, eps=1e-2), ("epsilon",)),
    InjectedFault("branch beyond fp16", model_faults.overflow, ("overflow",), "inner"),
    InjectedFault("no 1/√d in attention", model_faults.without_scale, ("saturated-attention",), "attention"),
    InjectedFault("no causal mask", partial(model_faults.mask, inverted=False), ("targets",)),
    InjectedFault("causal mask inverted", partial(model_faults.mask, inverted=True), ("targets",)),
    InjectedFault("labels not shifted", partial(target_faults.shift_labels, offset=0), ("targets",)),
    InjectedFault("labels shifted twice", partial(target_faults.shift_labels, offset=2), ("targets",)),
    InjectedFault("targets of other inputs", target_faults.shuffle_targets, ("targets",)),
    InjectedFault("padding attended", partial(target_faults.pad, left=True), ("targets",)),
    InjectedFault("padding in the loss", partial(target_faults.pad, left=False), ("targets",)),
    InjectedFault("batch taken for positions", model_faults.mix_batch, ("targets",)),
    InjectedFault("dead units (bias −10)", model_faults.kill_units, ("dead",), "inner"),
    InjectedFault("dropout 0.9", model_faults.drop_most, ("dropout",), "layer"),
    InjectedFault("residual added twice", model_faults.double_residual, ("structure",), "number"),
    InjectedFault("residual missing", model_faults.without_residual, ("structure",), "number"),
    InjectedFault("norm missing", model_faults.without_norm, ("structure",), "number"),
    InjectedFault("tied weights copied", model_faults.copy_tied, ("weight-tying",), "head"),
    InjectedFault("embedding ×√d twice", model_faults.large_embedding, ("structure",), "final"),
    InjectedFault(
        "learning rate 0 for a layer",
        partial(training_faults.grouped, learning_rate=0.0),
        ("update-band", "untrained"),
        "layer",
    ),
    InjectedFault(
        "layer not in the optimiser",
        partial(training_faults.grouped, learning_rate=None),
        ("update-band", "untrained"),
        "layer",
    ),
    InjectedFault("weight decay 100", partial(training_faults.optimise, weight_decay=100.0), ("update-band",)),
    InjectedFault("NaN in a parameter", model_faults.put_nan, ("refused",), "inner"),
    InjectedFault("log of 0 in the loss", target_faults.log_of_zero, ("non-finite",)),
    InjectedFault("softmax applied twice", target_faults.softmax_twice, ("initial-loss",)),
    InjectedFault("gradient clipped to 1e-4", training_faults.clip_hard, ("clipped",), watched=True),
    InjectedFault("β₂ 0.1", partial(training_faults.optimise, betas=(0.9, 0.1)), ("optimiser-settings",)),
    InjectedFault("β₂ 0.99999", partial(training_faults.optimise, betas=(0.9, 0.99999)), ("optimiser-settings",)),
    InjectedFault("loss maximised", training_faults.ascend, ("step-size",)),
)
