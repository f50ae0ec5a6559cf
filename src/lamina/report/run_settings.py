"""The settings besides scheme, depth and seed in which runs differ; such runs are not seeds of one model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lamina.config import to_toml_value
from lamina.errors import UserError
from lamina.formatting import short_keys
from lamina.options import NONE, Affects, result_values
from lamina.run_folder.starting_point import StartingPoint
from lamina.runs.changes import differences
from lamina.runs.run import Run
from lamina.training.config import RunConfig

Settings = tuple[tuple[str, str], ...]
"""Keys of a config, without their sections where these are not needed, with values as a config has them."""

SHOWN_OTHERWISE = ("seed", "model.residual", "model.num_layers")
WEIGHTS, DATA = "start_from", "data.store"
"""The keys that are compared by the hash of what they name, and shown as the name of the folder."""


def differing_settings(runs: Sequence[Run]) -> list[Settings]:
    """For each run, its values of all keys in which some of the runs differ."""
    values = [_values(run) for run in runs]
    keys = [key for key in _differing_keys(values) if key not in SHOWN_OTHERWISE]
    columns = [_texts(runs, values, key) for key in keys]
    return [tuple(zip(short_keys(keys), own, strict=True)) for own in zip(*columns, strict=True)] or [()] * len(runs)


def _values(run: Run) -> dict[str, Any]:
    """What a run's results depend on: its config, and the hashes of its data and of the weights it was started from."""
    values = result_values(run.config, Affects.RESULTS, Affects.LENGTH)
    start = StartingPoint.load(run.folder.started_from)
    values[WEIGHTS] = start.sha256 if start else None
    try:
        values["data"]["store"] = run.folder.data_copy(lambda: run.path).manifest.content_hash
    except UserError:  # a run without its copy of the manifest, which its summary has warned of
        values["data"]["store"] = None
    return values


def _differing_keys(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys whose values differ. Options of a scheme are compared with those of the first run of that scheme."""
    found: dict[str, None] = {}
    first: dict[str, Mapping[str, Any]] = {}
    for each in values:
        schemes = each["model"]["residual"]  # a name, or those of encoder and decoder
        for other in (values[0], first.setdefault(str(schemes), each)):
            found |= dict.fromkeys(key for key, _, _ in differences(other, each, RunConfig))
    return list(found)


def _find(values: Mapping[str, Any], key: str) -> Any:
    """The value of a key such as `train.steps`; None where there is none."""
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _texts(runs: Sequence[Run], values: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """The values of a key as text; with the start of the hash where one name stands for several contents."""
    found = [_find(each, key) for each in values]
    texts = [_text(run, key, value) for run, value in zip(runs, found, strict=True)]
    contents = Counter(text for text, _ in dict.fromkeys(zip(texts, map(str, found), strict=True)))
    pairs = zip(texts, found, strict=True)
    return [f"{text} ({str(value)[:8]})" if contents[text] > 1 else text for text, value in pairs]


def _text(run: Run, key: str, value: Any) -> str:
    if key in (WEIGHTS, DATA):
        folder = run.config.start_from if key == WEIGHTS else run.config.data.store
        return Path(folder).name if folder else NONE
    return NONE if value is None else to_toml_value(value)
