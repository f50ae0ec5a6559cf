"""A run that a study declares: the values of its config, its data, its seeds, and the labels of its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina.data.store import Store
from lamina.files.hashes import hash_json
from lamina.model.options import pair
from lamina.run_folder.records import Fingerprint
from lamina.studies.result_table import Label
from lamina.studies.reuse import fingerprint
from lamina.studies.shared_runs.data_sets import DataName
from lamina.training.config import RunConfig

THREE_SEEDS = (1, 2, 3)
FIVE_SEEDS = (1, 2, 3, 4, 5)
"""The seeds where failures are counted."""
HALF_PRECISION_COST = 5
"""The cost of a step in fp16 on a CPU, relative to fp32: measured for 18-18 layers of width 32 and 64."""


@dataclass(frozen=True)
class StudyRun:
    """A model that is trained once per seed."""

    data: DataName
    values: Mapping[str, Any]
    """The values of its config, without seed and store."""
    labels: Mapping[str, Label] = field(default_factory=dict)
    """The labels of all its results in the study that declares it. They are no part of the run: another study may
    declare the same run with other labels."""
    seeds: Sequence[int] = THREE_SEEDS
    curves: bool = False
    """Whether the study needs losses by step, besides the numbers at the end."""

    def config(self, seed: int, store: str | None = None) -> RunConfig:
        """The config of one seed."""
        data = {**self.values.get("data", {}), **({"store": store} if store else {})}
        train = {"threads": 1, "save_every": 0, "samples": 0, "log_every": 10, **self.values.get("train", {})}
        named = ", ".join(f"{name} {value}" for name, value in self.labels.items())
        return RunConfig.read({**self.values, "seed": seed, "data": data, "train": train}, where=f"the run {named}")

    @property
    def cost(self) -> int:
        """A rough estimate of the cost of one seed, relative to that of others: layers times steps."""
        config = self.config(self.seeds[0])
        slowness = HALF_PRECISION_COST if config.train.precision == "fp16" else 1
        return sum(pair(config.model.num_layers)) * (config.train.steps or 0) * slowness

    def fingerprint(self, seed: int, store: Store) -> Fingerprint:
        """Everything that the numbers of one seed depend on."""
        return fingerprint(self.config(seed, str(store.folder)), store)


def key_of(found: Fingerprint) -> str:
    """The key under which the numbers of a run are kept."""
    return hash_json(found.model_dump(mode="json"))[:24]
