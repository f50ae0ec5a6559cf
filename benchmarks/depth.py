"""How cost grows with depth: time and memory of 6 to 100 layers, and whether 1,000 layers train.

    python benchmarks/depth.py [--rounds 10] [--width 64] [--depths 6,12,25,50,100] [--residual pre-ln]
           [--kinds decoder,encoder-decoder] [--deep 1000] [--deep-residual deep-norm] [--deep-steps 30] [key=value …]

Time: every round does one training step at each depth, for a language model and for an encoder–decoder with as many
layers in either stack. The medians are fitted by t = a + b·layers; beside R² stands what a layer costs in the upper
part of the range over what it costs in the lower one, with its bootstrap interval. Growth is linear when that interval
reaches 1.1 and R² is at least 0.99.

Memory: the resident maximum of a fresh process each, for the shallowest and the deepest, with and without activation
checkpointing.

Trains: a language model of `--deep` layers with activation checkpointing, in a fresh process: a real run on the
embedded language. It does when the last five losses all lie below the first five. 0 leaves it out. The key=value
overrides apply to every model.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lamina.config import read_overrides
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.files.atomic import write_file
from lamina.model.options import ModelOptions
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run
from lamina.training.config import RunConfig
from pairs import Numbers, counted, estimate
from steps import Step, in_fresh_process, peak_memory, resident_maximum

STRAIGHT, EVEN = 0.99, 1.1  # R², and a layer high up over a layer low down
ENDS = 5  # losses at either end of the deep run: all of the last below all of the first, and it trains

Values = dict[str, Any]


def measure_times(models: Sequence[ModelOptions], rounds: int, tokens: int) -> Numbers:
    """Seconds of a step, (rounds, models); the models of each round run in random order."""
    steps = [Step(options, tokens) for options in models]
    for step in steps:  # the first makes the optimiser's state
        step()
    seconds = np.zeros((rounds, len(steps)))
    for number in counted(range(rounds), "rounds"):
        for turn in random.Random(number).sample(range(len(steps)), len(steps)):
            seconds[number, turn] = steps[turn]()
    return seconds


def growth(depths: Sequence[int], seconds: Numbers) -> Values:
    """The straight line through the medians, how well it fits, and whether layers cost the same all the way up."""
    medians = np.median(seconds, axis=0)
    slope, start = np.polyfit(depths, medians, 1)
    left = np.sum((medians - start - slope * np.array(depths)) ** 2)
    straightness = 1 - left / np.sum((medians - medians.mean()) ** 2)
    middle = len(depths) // 2

    def upper_over_lower(medians: Numbers) -> Numbers:
        upper = (medians[..., -1] - medians[..., middle]) / (depths[-1] - depths[middle])
        return upper / ((medians[..., middle] - medians[..., 0]) / (depths[middle] - depths[0]))

    marginal = estimate(seconds, upper_over_lower)
    return {
        "seconds": dict(zip(map(str, depths), medians.tolist(), strict=True)),
        "fixed": start,
        "per_layer": slope,
        "r_squared": straightness,
        "marginal": marginal.to_json(),
        "linear": bool(straightness >= STRAIGHT and marginal.reaches(EVEN)),
    }


def train_deep(model: Values, steps: int, tokens: int, threads: int) -> Values:
    """A real run in a folder that is deleted afterwards; to be called in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        sets = {"train": ["text:400"], "valid": ["text:4"], "test": (), "tokenizer": {"size": 500}}
        prepare(source_options("embedded-text", ".", f"{folder}/store", **sets))
        values = {
            "task": "language-modelling",
            "task_options": {"block_length": 64},
            "data": {"store": f"{folder}/store", "max_tokens": tokens},
            "model": {key: value for key, value in model.items() if key != "vocab_size"} | {"checkpoint_layers": True},
            "schedule": {"learning_rate": 1e-3, "warmup_steps": max(1, steps // 4)},
            "train": {"steps": steps, "clip_norm": 1.0, "threads": threads, "log_every": 1}
            | {"save_every": 0, "validate_every": 0},
        }
        status = Run(RunConfig.read(values, where="the benchmark"), f"{folder}/run").train()
        lines = [line for line in RunFolder(f"{folder}/run").metrics.read() if "loss" in line]
    losses = [line["nll"] for line in lines]
    return {
        "state": status.state,
        "reason": status.reason,
        "steps": len(losses),
        "seconds_per_step": float(np.median([tokens / line["tokens_per_second"] for line in lines])),
        "losses": losses,
        "bytes": resident_maximum(),
        "trains": len(losses) == steps and max(losses[-ENDS:]) < min(losses[:ENDS]),
    }


def measure_memory(models: Sequence[ModelOptions], tokens: int, threads: int) -> Values:
    """Peaks in bytes of the shallowest and the deepest, with and without activation checkpointing."""
    peaks: Values = {"plain": [], "checkpointed": []}
    for name, options in counted(list(product(peaks, (models[0], models[-1]))), "memory"):
        chosen = options.model_copy(update={"checkpoint_layers": name == "checkpointed"})
        peaks[name].append(peak_memory(chosen, tokens, steps=2, threads=threads))
    return peaks


def show_growth(kind: str, found: Values, console: Console) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("layers", "step"):
        table.add_column(heading, justify="right")
    for depth, seconds in found["seconds"].items():
        table.add_row(depth, f"{1000 * seconds:,.1f} ms")
    console.print(f"\n[bold]{kind}[/]")
    console.print(table)
    marginal = found["marginal"]
    interval = f"{marginal['value']:.2f} ({marginal['low']:.2f} – {marginal['high']:.2f})"
    console.print(
        f"{1000 * found['fixed']:.1f} ms + {1000 * found['per_layer']:.2f} ms per layer, R² {found['r_squared']:.4f}; "
        f"a layer high up costs {interval} of one low down: {_verdict(found['linear'], 'linear')}"
    )
    shallowest, *_, deepest = found["seconds"]
    for name, (low, high) in found["memory"].items():
        per_layer = (high - low) / (int(deepest) - int(shallowest))
        console.print(f"peak {name}: {_mebibytes(high)} at {deepest} layers, {per_layer / 2**20:.2f} MiB per layer")


def show_deep(layers: int, found: Values, console: Console) -> None:
    console.print(
        f"\n[bold]{layers:,} layers[/] with activation checkpointing: {found['steps']} steps of "
        f"{found['seconds_per_step']:.1f} s, peak {_mebibytes(found['bytes'])}, loss {found['losses'][0]:.3f} → "
        f"{found['losses'][-1]:.3f}: {_verdict(found['trains'], 'trains')}"
    )


def _verdict(is_so: bool, what: str) -> str:
    return f"[green]{what}[/]" if is_so else f"[red]{what}: no[/]"


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="options of the models, as key=value")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--depths", default="6,12,25,50,100", help="rising, separated by commas, at least three")
    parser.add_argument("--kinds", default="decoder,encoder-decoder")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--residual", default="pre-ln")
    parser.add_argument("--tokens", type=int, default=1024, help="in a batch; of source and target together")
    parser.add_argument("--threads", type=int, default=1, help="small matrices: a second thread only waits")
    parser.add_argument("--deep", type=int, default=1000, help="layers of the model that is trained; 0: none")
    parser.add_argument("--deep-residual", default="deep-norm")
    parser.add_argument("--deep-steps", type=int, default=30)
    parser.add_argument("--deep-tokens", type=int, default=256)
    parser.add_argument("--output", help="a JSON file for all that was measured")
    given = parser.parse_args()

    torch.set_num_threads(given.threads)
    console = Console(highlight=False)
    depths = [int(depth) for depth in given.depths.split(",")]
    size: Values = {"model_dim": given.width, "feed_forward_dim": 2 * given.width, "num_heads": 4, "vocab_size": 1000}
    size |= read_overrides(given.overrides)
    result: Values = {"settings": {name: value for name, value in vars(given).items() if name != "output"}}
    for kind in given.kinds.split(",") if given.kinds else ():
        chosen = size | {"kind": kind, "residual": given.residual}
        models = [ModelOptions.read(chosen | {"num_layers": depth}, where="the benchmark") for depth in depths]
        found = growth(depths, measure_times(models, given.rounds, given.tokens))
        found["memory"] = measure_memory(models, given.tokens, given.threads)
        show_growth(kind, found, console)
        result[kind] = found
    if given.deep:
        model = size | {"num_layers": given.deep, "residual": given.deep_residual}
        result["deep"] = in_fresh_process(train_deep, model, given.deep_steps, given.deep_tokens, given.threads)
        show_deep(given.deep, result["deep"], console)
    if given.output:
        write_file(given.output, json.dumps(result, indent=1).encode())


if __name__ == "__main__":
    main()
