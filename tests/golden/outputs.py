"""Golden values of results: generated text, metrics, diagnoses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import lamina
from lamina import Transformer
from lamina.diagnosis.measurement import Series
from lamina.diagnosis.options import Thresholds
from lamina.diagnosis.results import Diagnosis
from lamina.generate.options import GenerateOptions
from lamina.generate.scoring import perplexity
from lamina.generate.search import generate
from lamina.runs.diagnose import Extent
from lamina.runs.run import Run
from lamina.studies.faults.models import plain_trial
from lamina.tasks.metrics import accuracy, bleu, chrf, f1, f1_macro, f1_micro, rouge

BOS, EOS = 1, 2
MODEL: dict[str, Any] = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "vocab_size": 40}
SENTENCES = [[3, 4, 5, 6, 7], [8, 9, 10], [11, 12, 13, 14], [15], [16, 3, 17], [4] * 9]
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"method": "greedy"},
    "beam": {"beam": 4, "nbest": 3},
    "beam-wu": {"beam": 4, "nbest": 2, "length_penalty": 0.6, "length_penalty_kind": "wu", "stop": "certain"},
    "beam-constrained": {"beam": 3, "stop": "likely", "no_repeat_ngram": 2, "min_length": 3, "max_length": 12},
    "sampling": {"method": "sample", "nbest": 2, "seed": 3},
    "sampling-top-k": {"method": "sample", "top_k": 5, "temperature": 0.7},
    "sampling-top-p": {"method": "sample", "top_p": 0.8, "temperature": 1.3},
}

# Generation


def generation(name: str, folder: Path) -> Any:
    """Tokens, score and log-probability of the outputs of random models that end at different lengths."""
    options = GenerateOptions(**SEARCHES[name])
    found = {}
    for kind in ("encoder-decoder", "decoder"):
        torch.manual_seed(2)
        model: Any = Transformer.from_preset(
            "iwslt", residual="post-ln", num_layers=2, kind=kind, shared_embeddings="none", **MODEL
        ).eval()
        with torch.no_grad():
            model.tables["output"].weight.normal_(0, 0.4)
            model.tables["output"].weight[EOS] *= 2.5
        prefixes = [[30] * (at % 3) for at in range(len(SENTENCES))]
        best = generate(model, SENTENCES, options, bos=BOS, eos=EOS, prefixes=prefixes)
        found[kind] = [[[each.tokens, each.score, each.log_probability] for each in outputs] for outputs in best]
    return found


# Metrics

HYPOTHESES = ["The cat sat on the mat.", "It rained all day, again.", "a small house", "Nothing in common"]
REFERENCES = ["The cat sat on a mat.", "It rained all day again.", "the small houses", "Wholly other words here"]
PREDICTED, CORRECT = np.array([1, 1, 0, 0, 1, 2, 2, 0]), np.array([1, 0, 0, 1, 1, 2, 1, 0])
METRICS: dict[str, Callable[[], Any]] = {
    "bleu": lambda: bleu(HYPOTHESES, REFERENCES).value,
    "bleu-tok": lambda: bleu(HYPOTHESES, REFERENCES, "bleu-tok").value,
    "chrf": lambda: chrf(HYPOTHESES, REFERENCES).value,
    "rouge": lambda: rouge(HYPOTHESES, REFERENCES),
    "perplexity": lambda: [perplexity(123.4, 50), perplexity(1e6, 10)],
    "accuracy": lambda: accuracy(PREDICTED, CORRECT),
    "f1": lambda: [f1(PREDICTED, CORRECT), f1(PREDICTED, CORRECT, positive=2)],
    "f1 macro": lambda: f1_macro(PREDICTED, CORRECT),
    "f1 micro": lambda: f1_micro(PREDICTED, CORRECT),
}


def metric(name: str, folder: Path) -> Any:
    return METRICS[name]()


# Diagnoses

STRICT: dict[str, dict[str, float]] = {
    "vanishing": {"warning": 1.1, "failure": 0.7},
    "spikes": {"observed": 10},
    "vanished": {"share": 0.6},
    "learning_rate": {"gradient_share": 0.7},
    "amplification": {"warning": 0.4, "failure": 0.6},
    "collapse": {"warning": 1.05},
    "conditioning": {"warning": 1.0, "failure": 1.5},
    "overflow": {"headroom": 8200.0},
}
"""Thresholds between the values that small models have, so that every severity occurs."""


def diagnosis_of_factory(scheme: str, folder: Path) -> Any:
    """A fresh encoder–decoder at two seeds and several depths and widths, at a high learning rate."""

    source, target, labels = (torch.arange(72).view(3, 4, 6) * 7) % 37 + 3
    batch = {"source": source, "target": target, "labels": labels}

    def make(seed: int, num_layers: int = 3, width: int = MODEL["model_dim"]) -> nn.Module:
        options = {**MODEL, "dropout": 0.1, "num_layers": num_layers, "model_dim": width, "residual": scheme}
        model: Any = Transformer.from_preset("iwslt", **options)
        model.calibrate(source, target)
        return model

    loss = lambda losses: losses.smoothed.mean()  # noqa: E731
    thresholds = None if scheme == "resi-dual" else Thresholds.read(STRICT, where="thresholds")
    options: dict[str, Any] = {"seeds": 2, "batches": 2, "depths": (1, 2, 4), "thresholds": thresholds}
    return neutral(lamina.diagnose(make, batch, loss, learning_rate=0.02, **options).diagnosis)


def diagnosis_of_torch_encoder(folder: Path) -> Any:
    torch.manual_seed(4)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    batches = [torch.sin(torch.arange(160.0) * (0.7 + 0.1 * at)).view(2, 5, 16) for at in range(3)]
    return neutral(lamina.diagnose(encoder, batches, cubes, learning_rate=0.02).diagnosis)


def diagnosis_of_plain_decoder(folder: Path) -> Any:
    """A language model with its optimiser, whose targets, tokens and updates are measured."""
    trial = plain_trial()
    for layer in trial.layers:
        layer.dropout.p = 0.1
    batches = [trial.batch(seed) for seed in range(2)]
    return neutral(lamina.diagnose(trial.model, batches, trial.loss, optimiser=trial.make_optimiser).diagnosis)


def cubes(output: Tensor) -> Tensor:
    return output.pow(3).mean()


def diagnosis_of_run(run: Path) -> Any:
    extent = Extent(seeds=2, batches=3, tokens=60, checkpoint="latest", depths=False)
    found = Run(run).diagnose(extent)
    return dict(zip(("start", "checkpoint", "training"), map(neutral, found), strict=True))


def neutral(diagnosis: Diagnosis) -> dict[str, Any]:
    """The numbers of every measure by role, and the findings, without any text that is shown to people."""
    measures = {}
    for each in diagnosis.measurements:
        lines = [["measured", *numbers(series)] for series in each.measured]
        lines += [["theory", *numbers(series)] for series in each.predicted]
        lines += [["grid", *map(list, grid.values)] for grid in each.grids]
        lines += [["fact", fact.value, fact.spread] for fact in each.facts if fact.name != "gives the loss"]
        measures[each.key] = in_order(lines)
    findings: dict[str, list[list[Any]]] = {}
    for each in diagnosis.findings:
        if each.severity != "not measured":
            findings.setdefault(each.check, []).append([each.severity, each.value, each.spread, each.threshold])
    by_check = {check: in_order(found) for check, found in sorted(findings.items())}
    return {"measures": dict(sorted(measures.items())), "findings": by_check}


def numbers(line: Series) -> list[list[float]]:
    return [list(line.x), list(line.y), list(line.spread)]


def in_order(lines: list[list[Any]]) -> list[list[Any]]:
    """By their rounded numbers: what differs by rounding only may come in either order."""
    return sorted(lines, key=lambda line: list(rounded(line)))


def rounded(value: Any) -> Iterable[tuple[int, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from rounded(each)
    elif isinstance(value, str):
        yield 0, value
    elif value is None or math.isnan(value):
        yield 1, 0.0
    else:
        yield 2, float(f"{value:.6g}")
