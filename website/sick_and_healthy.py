"""The examples of "Diagnosis explained": for every check and measure a sick model and a healthy one, really measured.

    python website/sick_and_healthy.py vanishing

diagnoses the two examples of a check and prints its findings; the build of the site does so for all. Most faults are
those of the fault grid, in its small language model of plain torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

import lamina
from lamina.diagnosis.checks import all_checks
from lamina.diagnosis.examine import examine
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.subject import subject_of
from lamina.diagnosis.watching.watch import Watch
from lamina.studies.faults.grid import BATCHES, SEED
from lamina.studies.faults.injections import FAULTS
from lamina.studies.faults.models import LEARNING_RATE, Trial, named_module, plain_trial
from lamina.studies.faults.short_training import steps_of
from lamina.studies.faults.training_faults import optimise, post_norm

WATCHED_STEPS, BROKEN_STEP = 60, 48
BY_SIZE = ("post-ln", "pre-ln")
MODEL = "a language model of 6 pre-norm layers, width 64, in plain torch"
Inject = Callable[[Trial], None]


@dataclass(frozen=True, eq=False)
class Examples:
    """A sick and a healthy model in words, and a function that diagnoses both."""

    sick: str
    healthy: str
    diagnose: Callable[[], tuple[Diagnosis, Diagnosis]]


def at_start(sick: str, inject: Inject, healthy: str = MODEL, also: Inject | None = None) -> Examples:
    """Diagnosed before training; `also` changes the healthy model."""
    return Examples(sick, healthy, lambda: (_diagnosed(inject), _diagnosed(also)))


def watched(sick: str, inject: Inject, healthy: str = MODEL) -> Examples:
    """Watched in its first steps."""
    times = f", watched for {WATCHED_STEPS} steps"
    return Examples(sick, healthy + times, lambda: (_watched(inject), _watched(None)))


def of_schemes(sick: str, healthy: str) -> Examples:
    """A deep encoder–decoder of Lamina under two schemes, with measures against depth and width."""
    return Examples(
        f"an encoder–decoder of 12-12 layers and width 32 under {sick}",
        f"the same under {healthy}",
        lambda: (_of_scheme(sick), _of_scheme(healthy)),
    )


def changed_weights(sick: str, scheme: str, parameter: str, factor: float) -> Examples:
    """That model under one scheme, with some of its parameters multiplied by a factor."""
    healthy = f"an encoder–decoder of 12-12 layers and width 32 under {scheme}"
    return Examples(sick, healthy, lambda: (_of_scheme(scheme, parameter, factor), _of_scheme(scheme)))


def _with_dropout(trial: Trial, rate: float = 0.1) -> None:
    layers: Any = trial.layers
    for each in layers:
        each.dropout.p = rate


def _large_channel(trial: Trial) -> None:
    factors = torch.ones(named_module(trial, "embedding").weight.shape[1])
    factors[0] = 500.0
    named_module(trial, "embedding").register_forward_hook(lambda module, arguments, output: output * factors)


@torch.no_grad()
def _fading_branches(trial: Trial) -> None:
    layers: Any = trial.layers
    for number, each in enumerate(layers, start=1):
        for matrix in (each.attention.output, each.outer):
            matrix.weight.div_(number**2)


def _one_summed_loss(trial: Trial) -> None:
    plain, calls = trial.loss, count()
    trial.clip = float("inf")
    trial.loss = lambda output, batch: plain(output, batch) * (batch[0].numel() if next(calls) == BROKEN_STEP else 1)


def _common_vector(trial: Trial) -> None:
    named_module(trial, "embedding").register_forward_hook(lambda module, arguments, output: output + 20.0)


def _plain_descent(trial: Trial) -> None:
    trial.make_optimiser = lambda model: SGD(model.parameters(), lr=0.1)


def _post_norm_watched(trial: Trial) -> None:
    post_norm(trial)
    optimise(trial, lr=2e-3)


FAULT = {each.name: each.inject for each in FAULTS}
"""The faults of the grid."""
BROKEN_BATCH = watched(
    f"the loss of step {BROKEN_STEP + 1} is a sum instead of a mean, and gradients are not clipped", _one_summed_loss
)
OF_CHECK: dict[str, Examples] = {
    "non-finite": at_start("the loss takes the logarithm of 0", FAULT["log of 0 in the loss"]),
    "structure": at_start("a layer without its residual sum", FAULT["residual missing"]),
    "untrained": at_start("the stream is detached before layer 3", FAULT["detached after layer 2"]),
    "vanishing": of_schemes("post-ln", "pre-ln"),
    "learning-rate": at_start("a learning rate of 0.1", FAULT["learning rate ×100"]),
    "step-size": at_start("the optimiser maximises the loss", FAULT["loss maximised"]),
    "amplification": at_start("18 post-norm layers, a learning rate of 0.01 and no warm-up", post_norm),
    "conditioning": watched("every gradient is clipped to a norm of 0.0001", FAULT["gradient clipped to 1e-4"]),
    "epsilon": at_start("Adam's ε is 0.01", FAULT["Adam's ε 1e-2"]),
    "optimiser-settings": at_start("Adam's β₂ is 0.1", FAULT["β₂ 0.1"]),
    "collapse": at_start("the branches of layer l are initialised l² times smaller", _fading_branches),
    "overflow": at_start("a branch whose inner values are 100,000 times larger", FAULT["branch beyond fp16"]),
    "outliers": at_start("one channel of the embedding is 500 times larger", _large_channel),
    "weight-scale": at_start("every matrix is initialised 100 times smaller", FAULT["initialisation ×0.01"]),
    "weight-tying": at_start("the output layer is a copy of the embedding", FAULT["tied weights copied"]),
    "saturated-attention": at_start("attention without the factor 1/√d", FAULT["no 1/√d in attention"]),
    "dead": at_start("the inner biases of a feed-forward are −10", FAULT["dead units (bias −10)"]),
    "dropout": at_start("dropout of 0.9 in a layer", FAULT["dropout 0.9"], f"{MODEL}, dropout 0.1", _with_dropout),
    "initial-loss": at_start("softmax is applied twice", FAULT["softmax applied twice"]),
    "targets": at_start("attention without a causal mask", FAULT["no causal mask"]),
    "update-band": at_start("a layer that is not in the optimiser", FAULT["layer not in the optimiser"]),
    "unstable": BROKEN_BATCH,
    "spikes": BROKEN_BATCH,
    "clipped": watched("every gradient is clipped to a norm of 0.0001", FAULT["gradient clipped to 1e-4"]),
    "vanished": watched("18 post-norm layers, a learning rate of 0.002 and no warm-up", _post_norm_watched),
}
SCHEMES = OF_CHECK["vanishing"]
OF_MEASURE: dict[str, Examples] = {
    "norm-jacobian": SCHEMES,
    "gradient-against-depth": SCHEMES,
    "output-change": SCHEMES,
    "coordinate-check": SCHEMES,
    "coordinate-check-by-width": SCHEMES,
    "initial-loss": OF_CHECK["initial-loss"],
    "gradient-along-stream": SCHEMES,
    "stream-norms": at_start("the embedding is multiplied by √d twice", FAULT["embedding ×√d twice"]),
    "information-leak": OF_CHECK["targets"],
    "target-alignment": at_start("the labels are shifted twice", FAULT["labels shifted twice"]),
    "added-block": of_schemes("pre-ln", "resi-dual"),
    "effective-rank": at_start("a large constant is added to every embedding", _common_vector),
    "stream-mixing": changed_weights(
        "mixing weights that are 1.3 times larger", "hyper-connections", "mix_weights", 1.3
    ),
    "gradient-by-stream": changed_weights(
        "a gain of 0.01 instead of 1 in the norm of the second stream", "resi-dual", "dual_norm.weight", 0.01
    ),
    "adam-rms": Examples(
        "after 20 steps, the next loss is multiplied by 20",
        f"{MODEL}, after 20 steps",
        lambda: (_diagnosed_later(20.0), _diagnosed_later(1.0)),
    ),
    "watched-loss": BROKEN_BATCH,
    "watched-gradient-norm": BROKEN_BATCH,
    "watched-gradients": OF_CHECK["vanished"],
    "matrix-updates": watched("plain gradient descent instead of Adam", _plain_descent),
    "watched-condition": OF_CHECK["conditioning"],
    "watched-streams": watched("a learning rate of 0.1", FAULT["learning rate ×100"]),
}
"""The examples of measures that no check reads, or that another fault shows better than the check's own."""


def examples_of(measure: str) -> Examples:
    """The examples of a measure: its own, or those of the first check that reads it."""
    checks = (check.key for check in all_checks() if measure in check.reads)
    return OF_MEASURE.get(measure) or OF_CHECK[next(checks)]


@cache
def diagnosed(examples: Examples) -> tuple[Diagnosis, Diagnosis]:
    """The sick and the healthy diagnosis; those that several checks share are made once."""
    return examples.diagnose()


def _trial(inject: Inject | None) -> Trial:
    trial = plain_trial(SEED)
    if inject is not None:
        inject(trial)
    return trial


@cache
def _diagnosed(inject: Inject | None) -> Diagnosis:
    trial = _trial(inject)
    batches = [trial.batch(seed) for seed in range(BATCHES)]
    return examine(subject_of(trial.model, batches, trial.loss, optimiser=trial.make_optimiser, warmup=trial.warmup))


def _diagnosed_later(factor: float) -> Diagnosis:
    """After some steps, with the state of the optimiser; the loss of the next step is multiplied by a factor."""
    trial = _trial(None)
    optimiser = trial.make_optimiser(trial.model)
    steps_of(trial, optimiser, 20)
    batches = [trial.batch(100 + seed) for seed in range(BATCHES)]
    loss = trial.loss
    return examine(
        subject_of(trial.model, batches, lambda output, batch: factor * loss(output, batch), optimiser=optimiser)
    )


@cache
def _watched(inject: Inject | None) -> Diagnosis:
    trial = _trial(inject)
    optimiser, loss = trial.make_optimiser(trial.model), trial.loss
    with Watch(trial.model, optimiser, every=4, on_warning=lambda alarm: None) as watching:

        def recorded(output: Any, batch: Any) -> Tensor:
            value = loss(output, batch)
            watching.record(value)
            return value

        trial.loss = recorded
        steps_of(trial, optimiser, WATCHED_STEPS)
    return watching.diagnosis()


@cache
def _of_scheme(scheme: str, parameter: str = "", factor: float = 1.0) -> Diagnosis:
    """At two seeds; the parameters whose name ends with `parameter` are multiplied by `factor`."""

    def build(seed: int, num_layers: int = 12, width: int = 32) -> nn.Module:
        sizes = {"num_heads": 4, "feed_forward_dim": 2 * width, "vocab_size": 64, "dropout": 0.0}
        model = lamina.Transformer.from_preset(
            "iwslt", residual=scheme, num_layers=num_layers, model_dim=width, **sizes
        )
        with torch.no_grad():
            for name, each in model.named_parameters():
                if parameter and name.endswith(parameter):
                    each.mul_(factor)
        return model

    # Models of other depths and widths take most of the time, so only two schemes are measured with them.
    make = build if scheme in BY_SIZE else lambda seed: build(seed)
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(4, 64, (8, length), generator=generator) for length in (12, 10))
    batch = {"source": source, "target": target, "labels": target.roll(-1, dims=1)}
    subject = subject_of(make, batch, lambda output, *_: output.nll.mean(), learning_rate=LEARNING_RATE, warmup=0)
    return examine(subject, seeds=2)


if __name__ == "__main__":
    for check in sys.argv[1:]:
        for of_model in diagnosed(OF_CHECK[check]):
            for finding in of_model.findings:
                if finding.check == check:
                    print(f"{check}: {finding.severity}: {finding.sentence}")
