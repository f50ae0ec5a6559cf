"""Models that the studies train, at scales `micro` and `tiny`, with the papers' hyper-parameters mapped to small sizes.

| paper                        | tiny                                                                               |
| ---------------------------- | ---------------------------------------------------------------------------------- |
| width 512, feed-forward 2048 | 64 and 128, four heads                                                             |
| learning rate                | times 3, because √(512 / 64) = 2.8                                                 |
| warm-up of 4,000 steps       | 100 of 400 steps; 500 steps: 12; 8,000: 200                                        |
| inverse root                 | the decay begins at step 100, with or without warm-up                              |
| 60-12 layers                 | 30-6                                                                               |
| beam 5                       | greedy search                                                                      |
| dropout 0.1 or 0.3           | none, because no example is seen twice                                             |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lamina.studies.result_table import Label
from lamina.studies.shared_runs.data_sets import DataName
from lamina.studies.shared_runs.declared import FIVE_SEEDS, THREE_SEEDS, StudyRun

RATE_FACTOR = 3
STEPS = 400
WARMUP = 100
NO_WARMUP = 1
DEPTHS = {"60-12": (30, 6)}
"""Depths of the papers that are mapped to smaller ones."""
SUBSTITUTIONS = (
    "Width 64, 400 steps of 384 tokens, less than one epoch, without dropout; learning rates are the paper's times 3, "
    "warm-ups a fortieth",
    "IWSLT De-En: single clauses of 24 words of each kind, marn to tuvo",
    "WMT En-De: single clauses of 48 words of each kind, noric to selu; the test years differ in length and vocabulary",
    "60-12 layers: 30-6",
)


def of_trained_models(*substitutions: str) -> tuple[str, ...]:
    """The substitutions of a study that measures new models too."""
    return tuple(f"trained models: {each}" for each in substitutions)


def model_run(
    scale: str,
    data: DataName,
    *,
    scheme: str | tuple[str, str],
    depth: str,
    rate: float = 1e-3,
    warmup: int = WARMUP,
    decay: str = "inverse-root",
    steps: int = STEPS,
    width: int = 64,
    model: Mapping[str, Any] | None = None,
    optimiser: Mapping[str, Any] | None = None,
    train: Mapping[str, Any] | None = None,
    task: str = "translation",
    task_options: Mapping[str, Any] | None = None,
    max_tokens: int = 384,
    labels: Mapping[str, Label] | None = None,
    seeds: Sequence[int] = THREE_SEEDS,
    curves: bool = False,
) -> StudyRun:
    """A model with the paper's depth and learning rate: an encoder–decoder, or a single stack for a depth such as `6`.

    decay: `inverse-root`, `linear` or `constant`.
    task_options: by default those of greedy search.
    labels: those besides scheme and depth.
    """
    micro = scale == "micro"
    steps, width = (2, 8) if micro else (steps, width)
    schedule: dict[str, Any] = {"name": decay, "learning_rate": RATE_FACTOR * rate, "warmup_steps": warmup}
    if decay == "inverse-root":
        schedule["decay_steps"] = max(warmup, WARMUP)
    if decay == "linear" and micro:
        schedule["warmup_steps"] = NO_WARMUP
    values: dict[str, Any] = {
        "task": task,
        "data": {"max_tokens": max_tokens, "oversize": "alone"},
        "model": {
            "residual": scheme if isinstance(scheme, str) else list(scheme),
            "num_layers": _layers(depth, micro),
            "model_dim": width,
            "feed_forward_dim": 2 * width,
            "num_heads": 2 if micro else 4,
            "dropout": 0.0,
            **(model or {}),
        },
        "schedule": schedule,
        "train": {"steps": steps, "validate_every": max(1, steps // 10), **(train or {})},
        "task_options": dict(task_options or {"generation": {"beam": 1}}),
    }
    if optimiser:
        values["optimiser"] = dict(optimiser)
    named = scheme if isinstance(scheme, str) else "/".join(scheme)
    return StudyRun(
        data,
        values,
        {"scheme": named, "depth": depth, **(labels or {})},
        seeds[:1] if micro else seeds,
        curves=curves,
    )


def translation_grid(
    scale: str,
    data: DataName,
    schemes: Sequence[str],
    depths: Sequence[str],
    *,
    curves: bool = False,
    rate: float = 1e-3,
    counted: Sequence[str] = ("post-ln",),
) -> list[StudyRun]:
    """Every scheme at every depth. Those whose failures are `counted` have five seeds where they are deep."""
    return [
        model_run(
            scale,
            data,
            scheme=scheme,
            depth=depth,
            rate=rate,
            labels={"data": data},
            seeds=FIVE_SEEDS if scheme in counted and depth != "6-6" else THREE_SEEDS,
            curves=curves,
        )
        for depth in depths
        for scheme in schemes
    ]


def _layers(depth: str, micro: bool) -> int | list[int]:
    """The number of layers, or those of encoder and decoder."""
    encoder, _, decoder = depth.partition("-")
    if not decoder:
        return 1 if micro else int(encoder)
    return [1, 1] if micro else list(DEPTHS.get(depth, (int(encoder), int(decoder))))
