"""Is the advice worth its time? Advice in a small budget against pre-LN at the default learning rate in the same.

    python benchmarks/advise.py [--budget 3m] [--folder runs/advise-benchmark] [--settings 1,2,…] [--workers 1]

In each of ten settings `lamina.advise` has the budget for everything it does: timing, diagnoses, and the training of
all candidates. Its result are the models of the finalist that it chooses, one for each of two seeds. Opposite it the
config as it is, pre-LN at the default learning rate of 5e-4, is trained with the same two seeds for as many steps as
the whole budget allows, with the same schedule compressed to their length. All models of a setting have about as many
parameters. The validation losses are compared; "better" is a lower mean over the two seeds.

Time is that of the processor, so other programs on the machine do not change what either side can do in it. Two
settings need real data (`LAMINA_REAL_DATA`, see tests/); without it they are left out and counted. The same command
continues a benchmark that was interrupted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.store import Store
from lamina.files.atomic import write_file
from lamina.files.progress import no_progress
from lamina.formatting import short
from lamina.studies.advice.advise import advise, read_budget
from lamina.studies.advice.trial_runner import TrialRunner
from lamina.studies.advice.trials import trial_config
from lamina.studies.cells import depth_text
from lamina.studies.engines.pool import PoolEngine
from lamina.training.config import RunConfig

SEEDS = (1, 2)
PROBE_STEPS = 6
PLANNED = 4000
REAL = Path(os.environ.get("LAMINA_REAL_DATA", "/nonexistent"))
MASKED = {"task": "masked-language-modelling", "task_options": {"block_length": 64}, "data": {"max_tokens": 1024}}
MODELLING = {"task": "language-modelling", "task_options": {"block_length": 64, "context": 32}}
SPEECH = {
    "task": "speech-recognition",
    "task_options": {"ctc_weight": 0.3},
    "data": {"max_tokens": 3000},
    "model": {"front_end_channels": 128},
}


@dataclass(frozen=True)
class Setting:
    """A task with its data and a depth."""

    name: str
    depth: int
    data: Mapping[str, Any]
    """The options of `lamina prepare`."""
    values: Mapping[str, Any]
    """Those of the config that differ from `BASE`."""
    real: Mapping[str, int] = field(default_factory=dict)
    """Real files, and how many lines of each are used."""


def embedded(kind: str, train: int, valid: int, size: int, units: str = "bpe") -> dict[str, Any]:
    """The options that prepare an embedded data set."""
    tokenizer = {"kind": units, "size": size}
    return {"format": "embedded", "train": f"{kind}:{train}", "valid": f"{kind}:{valid}", "tokenizer": tokenizer}


TATOEBA = {
    "format": "parallel",
    "train": ["train.de.gz", "train.en.gz"],
    "valid": ["valid.de.gz", "valid.en.gz"],
    "tokenizer": {"size": 4000},
}
WIKITEXT = {
    "format": "wikitext",
    "train": "wiki.train.part.tokens.gz",
    "valid": "wiki.valid.tokens.gz",
    "tokenizer": {"size": 4000},
}
SETTINGS = (
    Setting("translation, short sentences", 6, embedded("short-translation", 20_000, 200, 1000), {}),
    Setting("translation, short sentences, deep", 18, embedded("short-translation", 20_000, 200, 1000), {}),
    Setting("translation, news", 12, embedded("news/noric-selu", 20_000, 200, 1500), {}),
    Setting("headlines", 6, embedded("headlines", 20_000, 100, 1500), {"task": "summarisation"}),
    Setting("language modelling, deep", 16, embedded("text", 2000, 20, 1500), MODELLING),
    Setting("masked language modelling", 6, embedded("text", 2000, 20, 1500), MASKED),
    Setting("paraphrases", 6, embedded("paraphrases", 10_000, 300, 1500), {"task": "classification"}),
    Setting("speech", 6, embedded("speech", 1500, 40, 0, "character"), SPEECH),
    Setting(
        "Tatoeba De-En (real)",
        6,
        TATOEBA,
        {},
        {
            f"tatoeba.de-en/{split}.{side}.gz": n
            for split, n in (("train", 100_000), ("valid", 300))
            for side in ("de", "en")
        },
    ),
    Setting(
        "WikiText-103 (real)",
        6,
        WIKITEXT,
        MODELLING,
        {"wikitext103/wiki.train.part.tokens.gz": 100_000, "wikitext103/wiki.valid.tokens.gz": 150},
    ),
)
BASE: dict[str, Any] = {
    "task": "translation",
    "data": {"max_tokens": 384, "oversize": "alone"},
    "model": {"residual": "pre-ln", "model_dim": 64, "feed_forward_dim": 128, "num_heads": 4, "dropout": 0.0},
    "schedule": {"warmup_steps": PLANNED // 10},
    "train": {"steps": PLANNED},
}
"""The learning rate is the default, 5e-4."""


def config_values(setting: Setting, store: Store) -> dict[str, Any]:
    """The values of the config that advice is asked on, and that is trained as it is."""
    values = {
        key: {**value, **setting.values.get(key, {})} if isinstance(value, dict) else value
        for key, value in BASE.items()
    }
    values |= {key: value for key, value in setting.values.items() if key not in values or key == "task"}
    values["data"]["store"] = str(store.folder)
    values["model"]["num_layers"] = setting.depth
    return values


def open_store(setting: Setting, folder: Path) -> Store:
    """Prepare the data of a setting."""
    output = {"output": str(folder / "store"), "replace": True}
    for source, lines in setting.real.items():
        copied = folder / Path(source).name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if not copied.exists():
            with gzip.open(REAL / source, "rb") as whole:
                write_file(copied, gzip.compress(b"".join(islice(whole, lines)), mtime=0))
    place = {"folder": str(folder)} if setting.real else {}
    return prepare(PrepareOptions.read({**setting.data, **output, **place}, where=setting.name))


def measure_setting(setting: Setting, folder: Path, budget: float, workers: int) -> dict[str, Any]:
    """The losses of both sides, with what they took."""
    store = open_store(setting, folder)
    values = config_values(setting, store)
    advice = advise(values, budget=budget, seeds=len(SEEDS), folder=folder / "advice", engine=PoolEngine(workers))
    chosen = advice.chosen
    losses, steps, seconds = train_as_it_is(RunConfig.read(values, where=setting.name), store, folder, budget, workers)
    return {
        "setting": setting.name,
        "depth": setting.depth,
        "scheme": "/".join(chosen.candidate.schemes),
        "advised_depth": depth_text(chosen.candidate.depth),
        "width": chosen.candidate.width,
        "learning_rate": chosen.candidate.learning_rate,
        "advised": list(chosen.final.values),
        "advised_steps": chosen.steps,
        "advised_seconds": advice.spent,
        "ruled_out": sum(bool(each.ruled_out) for each in advice.outcomes),
        "tried": sum(bool(each.losses) for each in advice.outcomes),
        "as_it_is": losses,
        "as_it_is_steps": steps,
        "as_it_is_seconds": seconds,
    }


def train_as_it_is(
    config: RunConfig, store: Store, folder: Path, budget: float, workers: int
) -> tuple[list[float | None], int, float]:
    """Losses by seed, the number of steps, and the seconds of all seeds: as many steps as the budget allows."""
    runner = TrialRunner(folder / "as-it-is", PoolEngine(workers), store, no_progress)
    try:
        runner.train({"probe": trial_config(config, SEEDS[0], PROBE_STEPS, PLANNED)}, PROBE_STEPS, "")
        cost = runner.cost("probe", PROBE_STEPS)
        length = min(PLANNED, int((budget / len(SEEDS) - cost.per_start) / cost.per_step))
        runs = {f"steps{length}-seed{seed}": trial_config(config, seed, length, PLANNED) for seed in SEEDS}
        runner.train(runs, length, "")
        seconds = sum(runner.total(name) for name in runs)
        return [runner.loss(name, length) for name in runs], length, seconds
    finally:
        runner.engine.shutdown(cancel_futures=True)


def is_better(row: Mapping[str, Any]) -> bool:
    """Whether the mean loss of the advised models is lower; a run that failed counts as infinite."""
    return mean(row["advised"]) < mean(row["as_it_is"])


def mean(losses: Sequence[float | None]) -> float:
    return inf if None in losses else sum(each for each in losses if each is not None) / len(losses)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| setting | layers | advised | loss of the advised | steps | loss of pre-LN, 5e-4 | steps | better |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        advised = f"{row['scheme']}, {row['advised_depth']} × {row['width']}, {row['learning_rate']:g}"
        lines.append(
            f"| {row['setting']} | {row['depth']} | {advised} | {_losses(row['advised'])} | {row['advised_steps']:,} | "
            f"{_losses(row['as_it_is'])} | {row['as_it_is_steps']:,} | {'yes' if is_better(row) else 'no'} |"
        )
    return "\n".join(lines)


def _losses(losses: Sequence[float | None]) -> str:
    seeds = ", ".join("failed" if each is None else short(each) for each in losses)
    return f"{short(mean(losses))} ({seeds})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="3m")
    parser.add_argument("--folder", type=Path, default=Path("runs/advise-benchmark"))
    parser.add_argument("--settings", default="", help="a part of the settings, by their numbers from 1")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    chosen = (
        [int(each) for each in arguments.settings.split(",")] if arguments.settings else range(1, len(SETTINGS) + 1)
    )
    rows, missing = [], 0
    for number in chosen:
        setting, folder = SETTINGS[number - 1], arguments.folder / str(number)
        if any(not (REAL / file).exists() for file in setting.real):
            missing += 1
            continue
        done = folder / "row.json"
        if not done.exists():
            row = measure_setting(setting, folder, read_budget(arguments.budget), arguments.workers)
            write_file(done, json.dumps(row, indent=1).encode())
        rows.append(json.loads(done.read_text()))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    print(f"\n{table(rows)}\n\nBetter in {sum(map(is_better, rows))} of {len(rows)} settings; {missing} left out, "
          "because their data is not here (LAMINA_REAL_DATA).")  # fmt: skip


if __name__ == "__main__":
    main()
