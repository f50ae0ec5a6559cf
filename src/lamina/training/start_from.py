"""Starting a run from trained weights: those of another run, or of a BERT that transformers saved.

    start_from = "runs/bert"                     a run folder, or a folder with config.json and model.safetensors
    start_from_checkpoint = "best"
    start_from_differences = "refuse"

Weights are matched by name and shape. The output layer is loaded if it is of the same kind and size, otherwise it is
new; in everything else the two models must agree, and so must their tokenizers: a token id has to mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lamina.data.store import Store
from lamina.data.tokenizer import Tokenizer
from lamina.errors import UserError
from lamina.files.hashes import hash_json
from lamina.model.options import ModelOptions
from lamina.model.transformer import Transformer
from lamina.run_folder.checkpoints import MODEL
from lamina.run_folder.folder import RunFolder
from lamina.run_folder.seal import hashes_of
from lamina.run_folder.starting_point import StartingPoint
from lamina.tasks import build_task
from lamina.training.bert_folder import ABSENT_HERE, is_bert_folder, read_bert_folder
from lamina.training.checkpoint import storage
from lamina.training.config import RunConfig

OUTPUT_LAYER = ("head.", "ctc_head.", "tables.output.")
"""The beginnings of the names of the output layer's parameters."""

MEANING = (
    "kind",
    "residual",
    "residual_options",
    "norm",
    "num_heads",
    "num_kv_heads",
    "activation",
    "output_bias",
    "scale_embeddings",
    "embedding_norm",
    "positions",
    "rotary_base",
)
"""The options of a model that determine what its weights compute, whether or not shapes depend on them."""

ABSENT = "none"


@dataclass(frozen=True)
class ModelDifference:
    """A parameter or option in which the model differs from the one it is to be started from."""

    name: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.name}: here {self.ours}, there {self.theirs}"


@dataclass(frozen=True, eq=False)
class Start:
    """Trained weights, and the model that they belong to."""

    path: str
    checkpoint: str
    sha256: str
    options: Mapping[str, Any]
    """The options of `MEANING`, as JSON."""
    head: str
    read: Callable[[], Mapping[str, Tensor]]
    """Reads the weights."""

    def load_into(self, model: Transformer, *, accept: bool) -> StartingPoint:
        """Copy the weights into a model that has been initialised.

        accept: whether parameters of other names and shapes keep their initial values; otherwise they are refused.
        """
        have, weights = model.state_dict(), dict(self.read())
        found = list(self._compare(model.options, have, weights))
        if found and not accept:
            raise UserError(
                f"start_from: the model differs from that of {self.path}:"
                + "".join(f"\n  {each}" for each in found)
                + '\nChange [model] so that they agree, or set start_from_differences = "accept": parameters that are'
                " missing there, or of another shape, then keep their initial values"
            )
        chosen = {name: weights[name] for name in have if name in weights and _fits(have[name], weights[name])}
        if not self._same_output_layer(model.options, have, weights):
            chosen = {name: value for name, value in chosen.items() if not name.startswith(OUTPUT_LAYER)}
        if not chosen:
            raise UserError(f"start_from: {self.path} has no weight of the same name and shape as the model")
        with torch.no_grad():
            for name, value in chosen.items():
                have[name].copy_(value)
        return StartingPoint(
            path=self.path,
            checkpoint=self.checkpoint,
            sha256=self.sha256,
            loaded=len(chosen),
            initialised=tuple(name for name in have if name not in chosen),
            not_used=tuple(name for name in weights if name not in chosen),
            differences=tuple(map(str, found)),
        )

    def _compare(
        self, options: ModelOptions, have: Mapping[str, Tensor], weights: Mapping[str, Tensor]
    ) -> Iterator[ModelDifference]:
        """All differences outside the output layer: of options first, then of parameters."""
        own = meaning_of(options)
        for key in MEANING:
            if own[key] != self.options[key]:
                yield ModelDifference(f"model.{key}", repr(own[key]), repr(self.options[key]))
        for name in dict.fromkeys((*have, *weights)):
            if name.startswith((*OUTPUT_LAYER, ABSENT_HERE)):
                continue
            ours, theirs = _shape(have.get(name)), _shape(weights.get(name))
            if ours != theirs:
                yield ModelDifference(name, ours, theirs)

    def _same_output_layer(
        self, options: ModelOptions, have: Mapping[str, Tensor], weights: Mapping[str, Tensor]
    ) -> bool:
        shapes = [
            {name: _shape(value) for name, value in each.items() if name.startswith(OUTPUT_LAYER)}
            for each in (have, weights)
        ]
        return options.head == self.head and shapes[0] == shapes[1]


def find_start(config: RunConfig, store: Store) -> Start | None:
    """The weights that a config starts from; None if it names none. The data must have their tokenizer."""
    if config.start_from is None:
        return None
    path = Path(config.start_from)
    folder = RunFolder(path)
    if folder.config.is_file():
        return _start_of_run(folder, config, store)
    if is_bert_folder(path):
        return _start_of_bert(path, store)
    raise UserError(
        f"start_from: {path} is not a run folder (no {folder.config.name}) and not the folder of a BERT (no "
        "config.json); name the folder of a run that was trained by lamina train"
    )


def start_model(config: RunConfig, store: Store, model: nn.Module) -> StartingPoint | None:
    """Load what a config starts from into its initialised model; returns what was loaded, None if nothing."""
    start = find_start(config, store)
    if start is None:
        return None
    assert isinstance(model, Transformer)
    return start.load_into(model, accept=config.start_from_differences == "accept")


def meaning_of(options: ModelOptions) -> dict[str, Any]:
    """The options that determine what a model's weights compute, as JSON."""
    values = options.model_dump(mode="json", include=set(MEANING))
    return values | {"num_kv_heads": options.num_kv_heads or options.num_heads}


def _start_of_run(folder: RunFolder, config: RunConfig, store: Store) -> Start:
    checkpoint = folder.find_checkpoint(config.start_from_checkpoint)
    own = RunConfig.read_stored(folder.config)
    data = folder.data_copy(lambda: store.folder)  # its examples are not read
    refuse_other_tokenizer(folder, data, store)
    options = build_task(own.task, data, own.task_options).model_options(own.model)
    return Start(
        path=str(folder.path),
        checkpoint=checkpoint.resolve().name,
        sha256=hash_json(hashes_of(checkpoint, MODEL)),
        options=meaning_of(options),
        head=options.head,
        read=lambda: storage.load_model(checkpoint),
    )


def _start_of_bert(path: Path, store: Store) -> Start:
    bert = read_bert_folder(path)
    wanted = Tokenizer.load(bert.vocabulary).sha256
    for field in store.manifest.tokenizers:
        if store.tokenizer(field).sha256 != wanted:
            raise _other_tokenizer(store, field, path, bert.vocabulary)
    return Start(
        path=str(path),
        checkpoint="",
        sha256=bert.sha256,
        options=meaning_of(bert.options),
        head=bert.options.head,
        read=bert.read_weights,
    )


def refuse_other_tokenizer(folder: RunFolder, theirs: Store, ours: Store) -> None:
    """Refuse a store whose tokenizer is not that of the run: its token ids would have other meanings."""
    known = {field: theirs.manifest.files[file] for field, file in theirs.manifest.tokenizers.items()}
    for field, file in ours.manifest.tokenizers.items():
        wanted = [known[field]] if field in known else list(known.values())
        if any(ours.manifest.files[file] != each for each in wanted):
            name = theirs.manifest.tokenizers.get(field, next(iter(theirs.manifest.tokenizers.values())))
            raise _other_tokenizer(ours, field, folder.path, folder.path / name)


def _other_tokenizer(store: Store, field: str, path: Path, file: Path) -> UserError:
    return UserError(
        f"start_from: the tokenizer of {store.folder} (field {field}) is not that of {path}, so token ids would have "
        f"other meanings. Prepare the data with that one:\n  lamina prepare ... --output OTHER tokenizer.file={file}\n"
        "and set data.store to OTHER"
    )


def _fits(ours: Tensor, theirs: Tensor) -> bool:
    return _shape(ours) == _shape(theirs)


def _shape(value: Tensor | None) -> str:
    if value is None:
        return ABSENT
    return f"{tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
