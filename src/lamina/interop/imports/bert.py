"""BERT with an output layer: a masked language model, or a classifier.

Its folder is read as `start_from` reads it; see `lamina.training.bert_folder`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lamina.data.text_rules.bert_vocabulary import read_bert_vocabulary
from lamina.data.tokenizer import BOS, EOS, Tokenizer
from lamina.errors import UserError
from lamina.interop.imports.foreign_model import ForeignConfig, ForeignModel
from lamina.interop.imports.token_rows import NEVER
from lamina.interop.imports.weight_mapping import WeightMapping
from lamina.model.options import ModelChoices, ModelOptions
from lamina.model.transformer import Transformer
from lamina.training.bert_folder import ROWS_ARE_TOKENS, UNUSED, own_name, read_bert_folder

TASKS = {"masked-words": "masked-language-modelling", "classes": "classification"}


def read_bert(folder: Path, config: ForeignConfig) -> ForeignModel:
    """A BertForMaskedLM, BertForPreTraining or BertForSequenceClassification."""
    bert = read_bert_folder(folder)
    options = bert.options
    if options.head not in TASKS:
        raise UserError(
            f"{folder}: a BERT without an output layer, which no task of Lamina evaluates; to train one on it, name "
            "the folder as start_from of a config"
        )
    tokenizer = Tokenizer.load(bert.vocabulary)
    field = "text" if options.head == "masked-words" else "first"
    chosen = {name: value for name, value in options.model_dump().items() if name in ModelChoices.model_fields}
    dropouts = {
        "dropout": config.get("hidden_dropout_prob", 0.1),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.1),
        "init": "normal",
    }
    rows = torch.tensor(read_bert_vocabulary(bert.vocabulary).rows)
    return ForeignModel(
        task=TASKS[options.head],
        task_options={"block_length": min(128, options.max_length - 2)} if options.head == "masked-words" else {},
        model=chosen | dropouts,
        tokenizers={field: tokenizer},
        map_weights=lambda weights, own: _map(weights, own, rows, config.number("vocab_size", 30_522)),
        unused=rf"(bert\.)?({UNUSED})",
        labels=_labels(config) if options.head == "classes" else (),
    )


def _map(weights: WeightMapping, options: ModelOptions, rows: Tensor, vocab_size: int) -> None:
    """Take every weight of Lamina's model; <bos> and <eos>, which are copies of other tokens, are never predicted."""
    names = {own_name(name, options.head): name for name in weights.names}
    with torch.device("meta"):
        model = Transformer.build(options)
    for own, like in model.state_dict().items():
        is_table = own in ROWS_ARE_TOKENS
        found = weights.take(names.get(own, own), *((vocab_size, *like.shape[1:]) if is_table else like.shape))
        weights.own[own] = found[rows] if is_table else found
    if "head.bias" in weights.own:
        weights.own["head.bias"][[BOS, EOS]] = NEVER


def _labels(config: ForeignConfig) -> tuple[str, ...]:
    given: dict[str, Any] = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    try:
        return tuple(str(given[key]) for key in sorted(given, key=int))
    except (TypeError, ValueError, AttributeError):
        raise UserError(f"{config.where}: id2label is not a table from numbers to labels") from None
