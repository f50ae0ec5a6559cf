"""The folder of a BERT that transformers saved: its options, and its weights under the names of Lamina's model.

Read are config.json, model.safetensors and the vocabulary; transformers itself is not needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from lamina.data.text_rules.bert_vocabulary import find_bert_vocabulary, read_bert_vocabulary
from lamina.errors import UserError
from lamina.files.hashes import hash_file
from lamina.model.options import Head, ModelOptions
from lamina.residual.post_ln import PostLN

CONFIG, WEIGHTS = "config.json", "model.safetensors"
NAMES = (
    (r"embeddings\.word_embeddings\.weight", "tables.input.weight"),
    (r"embeddings\.position_embeddings\.(.*)", r"embedding.positions.table.\1"),
    (r"embeddings\.token_type_embeddings\.(.*)", r"embedding.segments.\1"),
    (r"embeddings\.LayerNorm\.(.*)", r"embedding.norm.\1"),
    (r"encoder\.layer\.(\d+)\.attention\.self\.(\w+)\.(.*)", r"stack.layers.\1.sublayers.0.\2.\3"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.dense\.(.*)", r"stack.layers.\1.sublayers.0.output.\2"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.(.*)", r"stack.layers.\1.sites.0.norm.\2"),
    (r"encoder\.layer\.(\d+)\.intermediate\.dense\.(.*)", r"stack.layers.\1.sublayers.1.inner.\2"),
    (r"encoder\.layer\.(\d+)\.output\.dense\.(.*)", r"stack.layers.\1.sublayers.1.outer.\2"),
    (r"encoder\.layer\.(\d+)\.output\.LayerNorm\.(.*)", r"stack.layers.\1.sites.1.norm.\2"),
)
HEADS: dict[Head, tuple[tuple[str, str], ...]] = {
    "classes": ((r"pooler\.dense\.(.*)", r"head.dense.\1"), (r"classifier\.(.*)", r"head.output.\1")),
    "masked-words": (
        (r"cls\.predictions\.transform\.dense\.(.*)", r"head.dense.\1"),
        (r"cls\.predictions\.transform\.LayerNorm\.(.*)", r"head.norm.\1"),
        (r"cls\.predictions\.bias", "head.bias"),
    ),
}
"""The output layers of BertForSequenceClassification and BertForMaskedLM."""
UNUSED = r"embeddings\.(position|token_type)_ids|pooler\..*|classifier\..*|cls\..*"
"""Counters, output layers of other kinds, and what is a copy: the decoder's matrix is the embedding table."""
ABSENT_HERE = "bert."
"""The beginning of the names of weights that no model of Lamina needs."""
ROWS_ARE_TOKENS = ("tables.input.weight", "head.bias")


class BertFolder(NamedTuple):
    """What a model folder says about its BERT."""

    path: Path
    options: ModelOptions
    vocabulary: Path
    """The file with its vocabulary."""
    sha256: str
    """The hash of the weights."""

    def read_weights(self) -> dict[str, Tensor]:
        """The weights by the names of Lamina's model, with the rows of the vocabulary in the order of its tokenizer."""
        rows = torch.tensor(read_bert_vocabulary(self.vocabulary).rows)
        found = {}
        for name, value in _read_tensors(self.path / WEIGHTS).items():
            own = own_name(name, self.options.head)
            if own in ROWS_ARE_TOKENS:
                if len(value) <= int(rows.max()):
                    what = f"{name} has {len(value)} rows, but {self.vocabulary.name} has {int(rows.max()) + 1} tokens"
                    raise UserError(f"start_from: {self.path}: {what}; they belong to different models")
                value = value[rows]
            found[own] = value
        return found


def is_bert_folder(path: Path) -> bool:
    """Whether a folder has the config of a model of transformers."""
    return (path / CONFIG).is_file()


def read_bert_folder(path: Path) -> BertFolder:
    """Read the config of a folder; models other than BERT, and activations that Lamina lacks, are refused."""
    try:
        config = json.loads((path / CONFIG).read_bytes())
        kind = config.get("model_type")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise UserError(f"start_from: {path / CONFIG}: cannot be read as a config of transformers ({error})") from None
    if kind != "bert":
        raise UserError(f"start_from: {path} is a model of type {kind!r}; of transformers' models, only a BERT is read")
    if not (path / WEIGHTS).is_file():
        raise UserError(
            f"start_from: {path} has no {WEIGHTS}, the only file of weights that is read; save the model again with "
            "model.save_pretrained(folder), which makes one"
        )
    options = ModelOptions.read(_values(config, _find_head(path / WEIGHTS)), where=f"start_from: {path / CONFIG}")
    return BertFolder(path, options, find_bert_vocabulary(path), hash_file(path / WEIGHTS))


def own_name(name: str, head: Head) -> str:
    """The name of a weight in Lamina's model; one that is not known keeps its own."""
    plain = name.removeprefix("bert.")
    for pattern, own in (*NAMES, *HEADS.get(head, ())):
        if re.fullmatch(pattern, plain):
            return re.sub(pattern, own, plain)
    return ABSENT_HERE + plain if re.fullmatch(UNUSED, plain) else plain


def _values(config: Mapping[str, Any], head: Head) -> dict[str, Any]:
    """The options of the model."""
    return {
        "kind": "encoder",
        "head": head,
        "residual": PostLN.name,
        "num_layers": config.get("num_hidden_layers", 12),
        "model_dim": config.get("hidden_size", 768),
        "feed_forward_dim": config.get("intermediate_size", 3072),
        "num_heads": config.get("num_attention_heads", 12),
        "activation": config.get("hidden_act", "gelu"),
        "norm": {"eps": config.get("layer_norm_eps", 1e-12)},
        "embedding_norm": True,
        "scale_embeddings": False,
        "positions": {"absolute": "learned"}.get(kind := config.get("position_embedding_type", "absolute"), kind),
        "max_length": config.get("max_position_embeddings", 512),
        "num_segments": config.get("type_vocab_size", 2),
        "vocab_size": config.get("vocab_size", 30_522),
    }


def _find_head(file: Path) -> Head:
    names = _read_tensors(file)
    if "classifier.weight" in names:
        return "classes"
    return "masked-words" if "cls.predictions.bias" in names else "none"


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"start_from: {file}: cannot be read as safetensors ({error}); copy it again") from None
