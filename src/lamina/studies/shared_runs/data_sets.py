"""The data of the studies that train models, at scales `micro` and `tiny`: embedded sets that stand for the papers'.

| name        | stands for       | content                                                                        |
| ----------- | ---------------- | ------------------------------------------------------------------------------ |
| `iwslt`     | IWSLT De-En      | single clauses in 24 words of each kind, marn to tuvo                           |
| `wmt`       | WMT En-De        | single clauses in 48 words of each kind, noric to selu; seven test years        |
| `wmt-fr`    | WMT En-Fr        | the same, marn to selu                                                          |
| `few`       | IWSLT, WMT       | 200 pairs of `iwslt` for training, where many passes over the data are studied   |
| `opus`      | OPUS-100         | single clauses in three pairs of languages, both directions                     |
| `headlines` | Gigaword         | paragraphs with headlines                                                       |
| `text`      | WikiText-103     | running text                                                                    |
| `speech`    | LibriSpeech      | spoken sentences with little and with much noise                                |
| `mrpc`      | MRPC             | paraphrases, encoded with the tokenizer of `text`                               |
| `rte`       | RTE              | entailments, likewise                                                           |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from filelock import FileLock

from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.data.store import Store
from lamina.data.synthetic import NEWS_YEARS
from lamina.errors import UserError
from lamina.files.progress import Progress, no_progress

DataName = Literal["iwslt", "few", "wmt", "wmt-fr", "opus", "headlines", "text", "speech", "mrpc", "rte"]
DATA_NAMES: tuple[DataName, ...] = get_args(DataName)
OPUS_PAIRS = ("marn-tuvo", "marn-selu", "marn-noric")
NOISE_LEVELS = ("clean", "other")


def open_data(
    name: DataName, scale: str, folder: Path, progress: Progress = no_progress, *, replace: bool = True
) -> Store:
    """The store of a data set in `folder`, prepared anew, or with `replace=False` only if it is not there yet."""
    if scale not in ("micro", "tiny"):
        raise UserError(
            f"the studies that train models have no data at scale {scale!r} yet; run them with --scale tiny"
        )
    values = {
        "format": "embedded",
        "output": str(folder / f"{name}-{scale}"),
        "replace": replace,
        **_sets(name, 100 if scale == "micro" else 1),
    }
    if name in ("mrpc", "rte"):  # whose models start from models of `text`
        text = open_data("text", scale, folder, progress, replace=replace)
        values["tokenizer"] = {"file": str(text.folder / "tokenizer.json")}
    return prepare(PrepareOptions.read(values, where=f"the data set {name}"), progress)


def open_beside(store: Store, name: DataName) -> Store:
    """Another data set, in the folder and at the scale of one that `open_data` made.

    Runs that are trained side by side may ask for it at the same time: one prepares it, the others wait.
    """
    scale = next(each for each in ("micro", "tiny") if store.folder.name.endswith(f"-{each}"))
    folder = store.folder.parent
    with FileLock(folder / f".{name}-{scale}.preparing"):
        return open_data(name, scale, folder, replace=False)


def _sets(name: DataName, divisor: int) -> Mapping[str, Any]:
    """The options of `lamina prepare`; the number of examples is divided by `divisor`, down to a few."""

    def count(examples: int) -> int:
        return max(4, examples // divisor)

    match name:
        case "iwslt" | "few":
            return {
                "train": f"short-translation:{count(20_000 if name == 'iwslt' else 200)}",
                "valid": f"short-translation:{count(200)}",
                "test": f"short-translation:{count(300)}",
                "tokenizer": {"size": 1000},
            }
        case "wmt" | "wmt-fr":
            pair = "noric-selu" if name == "wmt" else "marn-selu"
            return {
                "train": f"news/{pair}:{count(20_000)}",
                "valid": f"news/{pair}:{count(200)}",
                "test": {str(year): f"news-{year}/{pair}:{count(60)}" for year in NEWS_YEARS},
                "tokenizer": {"size": 1500},
            }
        case "opus":
            held_out = {pair: f"short-translation/{pair}:{count(60)}" for pair in OPUS_PAIRS}
            return {
                "train": {pair: f"short-translation/{pair}:{count(8000)}" for pair in OPUS_PAIRS},
                "valid": held_out,
                "test": held_out,
                "tokenizer": {"size": 1500},
            }
        case "headlines":
            return {
                "train": f"headlines:{count(20_000)}",
                "valid": f"headlines:{count(100)}",
                "test": f"headlines:{count(200)}",
                "tokenizer": {"size": 1500},
            }
        case "text":
            return {
                "train": f"text:{count(2000)}",
                "valid": f"text:{count(20)}",
                "test": f"text:{count(20)}",
                "tokenizer": {"size": 1500},
            }
        case "speech":
            return {
                "train": f"speech:{count(1500)}",
                "valid": f"speech:{count(40)}",
                "test": {level: f"speech/{level}:{count(40)}" for level in NOISE_LEVELS},
                "tokenizer": {"kind": "character", "size": 0},
            }
        case "mrpc" | "rte":
            kind = "paraphrases" if name == "mrpc" else "entailments"
            return {split: f"{kind}:{count(size)}" for split, size in (("train", 2000), ("valid", 300), ("test", 300))}
