"""Every golden value, computed by the library as it is now, as plain JSON values.

This file and `outputs.py` are the only ones here that know Lamina's modules. A *row* is one set of golden values: how
it is computed, and the components whose result versions it depends on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

import lamina
from golden import outputs
from lamina import Transformer, residual
from lamina import training as training_package
from lamina.data.batches import BatchPlan, OrderOptions
from lamina.data.prepare import prepare
from lamina.data.sources import find_source, source_options
from lamina.data.store import Store
from lamina.diagnosis import measures
from lamina.model.initialisation import Initialisation
from lamina.model.options import ModelChoices
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.studies.reuse import initialisation_versions, optimiser_versions, scheme_versions, task_versions
from lamina.tasks import TASKS, build_task
from lamina.training.config import RunConfig
from lamina.training.divergence import Diverged, LossMonitor
from lamina.training.optimisers import OPTIMISERS
from lamina.training.schedule import ScheduleOptions, build_schedule
from support.memory_batches import batches_from

SMALL: dict[str, Any] = {"model_dim": 16, "feed_forward_dim": 32, "num_heads": 2}
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
STEPS = 20
SHARED, MEASURES = "shared path", "measures"
LOSSES: dict[str, tuple[Any, dict[str, Any]]] = {
    "translation": (["translation:80"], {"word_dropout": 0.1}),
    "multilingual-translation": ({pair: [f"translation/{pair}:40"] for pair in ("marn-tuvo", "marn-noric")}, {}),
    "summarisation": (["headlines:80"], {}),
    "language-modelling": (["text:80"], {"block_length": 48}),
    "masked-language-modelling": (["text:80"], {"block_length": 48}),
    "classification": (["entailments:80"], {}),
}
"""Text and options of the tasks whose losses are stored since before there were versions; see `task_losses`."""


@dataclass(frozen=True)
class Row:
    """One set of golden values."""

    depends: tuple[str, ...]
    """The components whose result versions its values depend on."""
    compute: Callable[[Path], Any]
    """Takes a folder for temporary files."""


def rows() -> dict[str, Row]:
    """All of them; the part of a name before the slash is the file in which the values are stored."""
    found = {"order/batches": Row((SHARED,), order), "divergence/losses": Row((SHARED,), divergence)}
    for name in get_args(Initialisation):
        depends = (SHARED, "scheme pre-ln", f"initialisation {name}")
        found[f"initialisation/{name}"] = Row(depends, partial(initialisation, name))
    for name in get_args(ScheduleOptions.model_fields["name"].annotation):
        found[f"schedule/{name}"] = Row((SHARED,), partial(schedule, name))
    for name in OPTIMISERS:
        depends = (SHARED, "scheme post-ln", "task translation", f"optimiser {name}")
        found[f"optimiser/{name}"] = Row(depends, partial(optimiser, name))
    for name in residual.names():
        found[f"losses/{name}"] = Row((SHARED, f"scheme {name}"), partial(scheme_losses, name))
        found[f"scheme/{name}"] = Row((SHARED, f"scheme {name}", "task translation"), partial(scheme, name))
    for name in TASKS:
        found[f"task/{name}"] = Row((SHARED, "scheme b2t", f"task {name}"), partial(task, name))
    for name in LOSSES:
        found[f"task_losses/{name}"] = Row((SHARED, "scheme b2t", f"task {name}"), partial(task_losses, name))
    for name in outputs.SEARCHES:
        found[f"generation/{name}"] = Row((SHARED, "scheme post-ln"), partial(outputs.generation, name))
    for name in outputs.METRICS:
        found[f"metric/{name}"] = Row((SHARED,), partial(outputs.metric, name))
    for name in ("post-ln", "pre-ln", "resi-dual"):
        depends = (SHARED, f"scheme {name}", MEASURES)
        found[f"diagnosis/{name}"] = Row(depends, partial(outputs.diagnosis_of_factory, name))
    found["diagnosis/torch-encoder"] = Row((MEASURES,), outputs.diagnosis_of_torch_encoder)
    found["diagnosis/plain-decoder"] = Row((MEASURES,), outputs.diagnosis_of_plain_decoder)
    found["diagnosis/run"] = Row((SHARED, "scheme post-ln", "task translation", MEASURES), diagnosis_of_run)
    return found


def versions() -> dict[str, dict[str, int]]:
    """The present result versions that each row depends on."""
    present = {SHARED: {SHARED: training_package.RESULT_VERSION}, MEASURES: {MEASURES: measures.RESULT_VERSION}}
    present |= {f"scheme {name}": scheme_versions(name) for name in residual.names()}
    present |= {f"task {name}": task_versions(name) for name in TASKS}
    present |= {f"optimiser {name}": optimiser_versions(name) for name in OPTIMISERS}
    present |= {f"initialisation {name}": initialisation_versions(name) for name in get_args(Initialisation)}
    return {
        name: {component: version for each in row.depends for component, version in present[each].items()}
        for name, row in rows().items()
    }


@contextmanager
def double_precision() -> Iterator[None]:
    """One thread and float64, so that values hardly depend on the machine; both are put back."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)


# Models


def initialisation(init: str, folder: Path) -> Any:
    """Every kind of table, position, head and feed-forward."""
    models = {
        "encoder-decoder": {"vocab_size": (30, 40), "shared_embeddings": "none", "activation": "swiglu"},
        "encoder": {
            "kind": "encoder",
            "head": "masked-words",
            "vocab_size": 30,
            "positions": "learned",
            "max_length": 12,
            "num_segments": 2,
            "embedding_norm": True,
        },
        "decoder": {"kind": "decoder", "vocab_size": 40, "adaptive_cutoffs": (10, 25), "positions": "rotary"},
    }
    found = {}
    for kind, options in models.items():
        torch.manual_seed(5)
        chosen = SMALL | options | {"init": init, "num_layers": 2}
        found[kind] = summary(Transformer.from_preset("iwslt", **chosen))
    return found


def summary(model: nn.Module) -> dict[str, list[float]]:
    """By kind of parameter, all of its tensors in a row: first entry, sum, norm, and a sum that knows their order."""
    kinds: dict[str, list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        kind = ".".join([part for part in name.split(".") if not part.isdigit()][-2:])
        kinds.setdefault(kind, []).append(parameter.detach().flatten().double())
    found = {}
    for kind, tensors in sorted(kinds.items()):
        values = torch.cat(tensors)
        ordered = values @ torch.cos(torch.arange(len(values), dtype=torch.float64))
        found[kind] = [values[0].item(), values.sum().item(), values.norm().item(), ordered.item()]
    return found


def waves(model: nn.Module) -> None:
    """Weights computed without a random generator."""
    with torch.no_grad():
        for at, (_, parameter) in enumerate(sorted(model.named_parameters())):
            if parameter.dim() == 2:
                wave = torch.sin(torch.arange(parameter.numel()) * (0.7 + 0.013 * at)).view_as(parameter)
                parameter.copy_(wave * (2 / sum(parameter.shape)) ** 0.5)


def scheme(name: str, folder: Path) -> Any:
    torch.manual_seed(5)
    model = lamina.Transformer.from_preset("iwslt", residual=name, num_layers=(2, 3), **SMALL, vocab_size=40)
    batches = [(torch.arange(60).view(3, 4, 5) * (7 + at)) % 37 + 3 for at in range(5)]
    model.calibrate(batches[0][0], batches[0][1])
    run = training(folder, f"scheme-{name}", model={"residual": name})
    return {"weights": summary(model), "training": run}


def scheme_losses(name: str, folder: Path) -> list[float]:
    """Five steps of Adam on five batches of made-up numbers."""
    options = {**SMALL, "vocab_size": 40, "dropout": 0.0}
    model = lamina.Transformer.from_preset("iwslt", residual=name, num_layers=(2, 3), **options)
    waves(model)
    batches = [(torch.arange(60).view(3, 4, 5) * (7 + at)) % 37 + 3 for at in range(5)]
    model.calibrate(batches[0][0], batches[0][1])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    found = []
    for source, target, labels in batches:
        loss = model(source, target, labels=labels, smoothing=0.1).smoothed.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


# Training


@cache
def store_for(task: str, folder: Path) -> Store:
    """A little of the embedded text that serves the task by default."""
    source = find_source(TASKS[task].embedded)
    options = dict(source.options)
    small = {"train": shortened(options["train"], 80), "valid": shortened(options["valid"], 8), "test": ()}
    chosen = options | small | {"tokenizer": {"size": 300}}
    return prepare(source_options(source, ".", str(folder / f"store-{task}"), **chosen))


def shortened(sets: Any, count: int) -> Any:
    """`translation:20000` with another number, in a list or by language pair."""
    if isinstance(sets, Mapping):
        return {name: shortened(each, count) for name, each in sets.items()}
    return [re.sub(r":\d+$", f":{count}", each) for each in sets]


def training(folder: Path, name: str, task: str = "translation", **changes: Any) -> dict[str, Any]:
    """Twenty steps through the real loop into a run folder: what it logged."""
    run = folder / name
    status = Run(config(folder, task, **changes), run).train(quiet=True)
    lines = list(RunFolder(run).metrics.read())
    steps = [line for line in lines if "gradient_norm" in line]
    measured = [(key, value) for line in lines for key, value in line.items() if key.startswith("valid_")]
    return {
        "state": status.state,
        "loss": [line["loss"] for line in steps],
        "gradient_norm": [line["gradient_norm"] for line in steps],
        "valid": {key.removeprefix("valid_"): value for key, value in measured},
    }


def config(folder: Path, task: str, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "task": task,
        "data": {"store": str(store_for(task, folder).folder), "max_tokens": 200, "oversize": "alone"},
        "model": {**SMALL, **DROPOUT, "num_layers": 2},
        "schedule": {"learning_rate": 1e-2, "warmup_steps": 5},
        "train": {"steps": STEPS, "validate_every": 0, "save_every": 0, "log_every": 1, "samples": 0, "device": "cpu"},
    }
    for section, change in changes.items():
        values[section] = values.get(section, {}) | change
    return RunConfig.read(values, where="golden values")


def task(name: str, folder: Path) -> Any:
    """The task's noise and label smoothing as they come by default, then all its metrics on the validation split."""
    options = {"block_length": 32} if "block_length" in TASKS[name].Options.model_fields else {}
    options |= {"word_dropout": 0.1} if "word_dropout" in TASKS[name].Options.model_fields else {}
    found = training(folder, f"task-{name}", name, model={"residual": "b2t"}, task_options=options)
    evaluation = Run(folder / f"task-{name}").evaluate("valid")
    unigram = build_task(name, store_for(name, folder), options).unigram_nll("valid")
    return {"training": found, "evaluation": dict(sorted(evaluation.scores.items())), "unigram": unigram}


def optimiser(name: str, folder: Path) -> Any:
    """With decay, clipping and batches cut in two."""
    chosen = {"name": name, "weight_decay": 0.01, "momentum": 0.9}
    cut = {"clip_norm": 1.0, "accumulate": 2}
    return training(folder, f"optimiser-{name}", model={"residual": "post-ln"}, optimiser=chosen, train=cut)


def schedule(name: str, folder: Path) -> Any:
    options = ScheduleOptions(name=name, learning_rate=1e-3, decay_factor=0.1, constant_epochs=3)  # type: ignore[arg-type]
    settings = {"default": {}, "decay": {"decay_steps": 60}, "warm-up": {"warmup_steps": 20, "decay_steps": 60}}
    found = {}
    for label, change in settings.items():
        try:
            chosen = ScheduleOptions.read(options.model_dump() | change, where=label)
            rate = build_schedule(chosen, total_steps=5000, steps_per_epoch=40)
        except lamina.UserError:  # a schedule without warm-up; no other setting of it
            continue
        found[label] = [rate(step) for step in (1, 2, 19, 20, 21, 60, 61, 120, 121, 300, 3999, 4000, 4001, 4999, 5000)]
    return found


def order(folder: Path) -> Any:
    """The examples of every batch of three epochs."""
    sizes = [(7 * number) % 13 + 1 for number in range(40)]
    settings: dict[str, dict[str, Any]] = {"usual": {}, "pools": {"sort_pool": 8}, "by size": {"shuffle": False}}
    return {
        label: [
            [
                batch.tolist()
                for batch in BatchPlan(np.array(sizes), OrderOptions(max_tokens=40, **each), 3).epoch(epoch)
            ]
            for epoch in range(3)
        ]
        for label, each in settings.items()
    }


def divergence(folder: Path) -> Any:
    """The step of 400 at which made-up losses count as diverged; None if they do not."""
    settings = {
        "a low first batch": (0.55, 0.62, 0.0, 0.05),
        "above the first": (7.0, 7.5, 0.0, 0.05),
        "rising": (7.0, 7.0, 0.02, 0.3),
        "exploding": (7.0, 50.0, 0.0, 30.0),
        "falling": (7.0, 7.5, -0.005, 0.3),
    }
    return {name: _diverges_at(*each) for name, each in settings.items()}


def _diverges_at(first: float, mean: float, trend: float, spread: float) -> int | None:
    monitor = LossMonitor(400)
    for step in range(400):
        try:
            monitor.follow(first if step == 0 else mean + trend * step + spread * math.sqrt(2) * math.sin(step**2))
        except Diverged:
            return step + 1
    return None


def task_losses(name: str, folder: Path) -> list[float]:
    """Twenty steps of Adam from weights that no random generator draws, without dropout."""
    sets, options = LOSSES[name]
    small: dict[str, Any] = {"train": sets, "valid": (), "test": (), "tokenizer": {"size": 400}}
    store = prepare(source_options("embedded-text", ".", str(folder / f"losses-{name}"), **small))
    task = build_task(name, store, options)
    model = Transformer.build(task.model_options(ModelChoices(**SMALL, num_layers=2, dropout=0.0, residual="b2t")))
    waves(model)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = batches_from(task.batches("train", OrderOptions(max_tokens=300, oversize="alone"), seed=3))
    found = []
    for _ in range(STEPS):
        step = task.losses(model.train(), task.inputs(next(batches), seed=3))
        optimiser.zero_grad()
        (step.smoothed / step.count).backward()
        optimiser.step()
        found.append((step.nll / step.count).item())
    return found


def diagnosis_of_run(folder: Path) -> Any:
    """The diagnoses of a watched run: at initialisation, at its checkpoint and during training."""
    narrow = {"window": 4, "min_observed": 3, "width": 0.5, "factor": 1.05, "alarm_share": 0.05}
    watch = {"every": 2, "band": narrow, "thresholds": outputs.STRICT}
    training(folder, "diagnosed", model={"residual": "post-ln", "num_layers": 3}, diagnose=watch)
    return outputs.diagnosis_of_run(folder / "diagnosed")
