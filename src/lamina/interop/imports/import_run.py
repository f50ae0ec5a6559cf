"""`lamina import`: writes a run folder from a checkpoint of another library."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from torch import Tensor

from lamina.data.prepare_options import PrepareOptions
from lamina.data.store import DROPPED, Store
from lamina.data.store_writer import StoreWriter
from lamina.data.tokenizer import Tokenizer
from lamina.errors import UserError
from lamina.interop.imports.bert import read_bert
from lamina.interop.imports.fairseq import read_fairseq, read_fairseq_file
from lamina.interop.imports.foreign_model import CONFIG, ForeignConfig, ForeignModel
from lamina.interop.imports.gpt2 import read_gpt2
from lamina.interop.imports.llama import read_llama
from lamina.interop.imports.marian import read_marian
from lamina.interop.imports.tensor_files import read_tensors
from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.interop.weight_files import PICKLED
from lamina.model.options import ModelOptions
from lamina.model.transformer import Transformer
from lamina.run_folder.checkpoints import ORIGIN
from lamina.run_folder.folder import RunFolder
from lamina.runs.changes import record_start
from lamina.runs.origin import Origin
from lamina.runs.run import Run
from lamina.tasks import build_task
from lamina.training.checkpoint import storage
from lamina.training.checkpoint.snapshot import Snapshot, load_weights
from lamina.training.config import RunConfig
from lamina.training.optimisers import build_optimiser

FAMILIES: dict[str, Callable[[Path, ForeignConfig], ForeignModel]] = {
    "bert": read_bert,
    "fairseq": read_fairseq,
    "gpt2": read_gpt2,
    "llama": read_llama,
    "marian": read_marian,
}
"""The reader of each family, by the `model_type` of its config.json."""
FORMATS = {"translation": "parallel", "language-modelling": "plain", "masked-language-modelling": "plain"}
"""The format of text files that `lamina evaluate --data` reads, by task; tsv for others."""


@dataclass(frozen=True)
class ImportedRun:
    """The run that an import made, and what a user should know about it."""

    run: Run
    notes: tuple[str, ...]


def import_run(source: str | Path, folder: str | Path, *, read_pt: bool = False, pairs: bool = False) -> ImportedRun:
    """Make a run from a checkpoint of another library.

    source: a folder with config.json and safetensors, as transformers saves a BERT, GPT-2, Llama or Marian, or a .pt
        file of fairseq.
    folder: the new run folder.
    read_pt: read a pickled checkpoint, by torch's restricted reader; otherwise only safetensors are read.
    pairs: whether a classifier labels pairs of sentences.
    """
    foreign, tensors, where = _read(Path(source), read_pt)
    if pairs:
        foreign = _of_pairs(foreign, where)
    config = RunConfig.read(
        {"task": foreign.task, "task_options": dict(foreign.task_options), "model": dict(foreign.model)}, where=where
    )
    target = RunFolder(folder)
    if target.path.exists() and (not target.path.is_dir() or any(target.path.iterdir())):
        raise UserError(f"{target.path}: exists already; choose a new folder with --folder")
    with TemporaryDirectory(prefix="lamina-") as temporary:
        store = _empty_store(foreign, Path(temporary, "store"))
        options = build_task(config.task, store, config.task_options).model_options(config.model)
        mapping = WeightMapping(tensors, where)
        foreign.map_weights(mapping, options)
        model = _build(options, mapping.finish(foreign.unused))
        with target.claim():
            _write(target, config, store, model, where)
    return ImportedRun(Run(target.path), foreign.notes)


def _read(source: Path, read_pt: bool) -> tuple[ForeignModel, Mapping[str, Tensor], str]:
    """The foreign model, its tensors, and where they were found."""
    if source.is_file() and source.suffix in PICKLED:
        config, tensors = read_fairseq_file(source, read_pt=read_pt)
        return read_fairseq(source.parent, config), tensors, str(source)
    if not source.is_dir():
        raise UserError(
            f"{source}: not a model folder and not a checkpoint of fairseq (.pt); give the folder that holds {CONFIG} "
            "and model.safetensors"
        )
    config = ForeignConfig.read(source)
    kind = config.get("model_type")
    if kind not in FAMILIES:
        raise UserError(
            f"{source / CONFIG}: models of type {kind!r} cannot be imported; these can: {', '.join(FAMILIES)}"
        )
    tensors = read_tensors(source, read_pt=read_pt)
    return FAMILIES[kind](source, config), tensors, str(source)


def _of_pairs(foreign: ForeignModel, where: str) -> ForeignModel:
    if foreign.task != "classification":
        raise UserError(f"{where}: --pairs is for a classifier, but this is a model for {foreign.task}; leave it out")
    return replace(foreign, tokenizers={**foreign.tokenizers, "second": foreign.tokenizers["first"]})


def _build(options: ModelOptions, weights: Mapping[str, Tensor]) -> Transformer:
    model = Transformer.build(options)
    load_weights(model, {name: value.contiguous() for name, value in weights.items()})
    return model


def _empty_store(foreign: ForeignModel, folder: Path) -> Store:
    """A store with the tokenizers and labels of the model, and no examples."""
    names = _names_of(foreign.tokenizers)
    fields = [*foreign.tokenizers, *(["label"] if foreign.labels else [])]
    values: dict[str, Any] = {"output": str(folder), "format": FORMATS.get(foreign.task, "tsv")}
    if values["format"] == "tsv":
        values["columns"] = {name: place for place, name in enumerate(fields, start=1)}
    with StoreWriter(folder) as writer:
        for field, name in names.items():
            writer.write(name, foreign.tokenizers[field].json.encode())
        split = writer.split("train", dict.fromkeys(fields, np.dtype(np.int32)))
        writer.write(DROPPED, json.dumps({"train": {}}).encode())
        return writer.finish(
            settings=PrepareOptions.read(values, where="import").settings(),
            sources=(),
            labels=foreign.labels,
            tokenizers=names,
            splits={"train": split.close({}, {})},
        )


def _names_of(tokenizers: Mapping[str, Tokenizer]) -> dict[str, str]:
    """The file of each field's tokenizer; one file if all are the same."""
    shared = len({each.sha256 for each in tokenizers.values()}) == 1
    return {field: "tokenizer.json" if shared else f"tokenizer.{field}.json" for field in tokenizers}


def _write(folder: RunFolder, config: RunConfig, store: Store, model: Transformer, where: str) -> None:
    """Write everything that a run folder of a finished run has: config, data, checkpoint, origin and status."""
    record_start(folder, config, store)
    folder.set_status("finished", 0, reason=f"imported from {where}")
    origin = Origin.of(folder).model_dump(mode="json")
    counters = {"step": 0, "epoch": 0, ORIGIN: origin}
    snapshot = Snapshot.take(model, build_optimiser(config.optimiser, model), counters)  # it has made no step
    storage.save(folder.checkpoints, snapshot, best_step=0)
    folder.set_status("finished", 0, reason=f"imported from {where}")  # again, with records of all files
