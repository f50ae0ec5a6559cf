"""A model as programs on padded tensors, which ONNX and torch.export can trace with any batch size and length.

    encoder     input_ids, attention_mask (rows, source length) → keys and values of every decoder layer's memory
    decoder     input_ids (rows, 1), attention_mask (rows, source length), memory, past keys and values
                → logits (rows, 1, vocabulary), all keys and values with those of the new token
    model       input_ids, attention_mask, token_type_ids → logits, for models that generate nothing

A language model has a decoder only, without memory. Programs are for inference, without gradient. Keys and values are
(rows, heads, length, head_dim).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.interop.padded import PaddedSequences
from lamina.model.attention import CrossAttention
from lamina.model.cache import Memory
from lamina.model.heads import ClassHead
from lamina.model.models import EncoderDecoder, SingleStack

ROWS, SOURCE, PAST, LENGTH = "rows", "source_length", "past_length", "length"
EXAMPLE = {ROWS: 3, SOURCE: 5, PAST: 4, LENGTH: 6}
"""The sizes of the example that a program is traced with; any others fit afterwards."""


@dataclass(frozen=True)
class Program:
    """A traceable module with its example inputs, and the names of all inputs and outputs."""

    module: nn.Module
    inputs: dict[str, Tensor]
    axes: dict[str, dict[int, str]]
    """The dimensions of each input that may have any size, by their index."""
    outputs: list[str] = field(default_factory=list)


def programs_of(model: nn.Module, form: str) -> Mapping[str, Program]:
    """The programs of a model by the names of their files; `form` begins the message where it has none."""
    options = cast(Any, model).options
    if options.feature_dim:
        raise UserError(f"{form}: the convolutions of a speech model depend on the lengths; use --to hf")
    if options.adaptive_cutoffs:
        raise UserError(f"{form}: an adaptive softmax chooses its matrices by the data; use --to hf")
    if isinstance(model, EncoderDecoder):
        return {"encoder": _encoder(model), "decoder": _decoder(model)}
    assert isinstance(model, SingleStack)
    return {"decoder": _decoder(model)} if options.kind == "decoder" else {"model": _whole(model)}


class GivenKeyValues:
    """Keys and values as inputs and outputs of a decoding step."""

    def __init__(self, past: list[Tensor], memory: list[Tensor], mask: Tensor | None) -> None:
        """Lists hold the keys of the first layer, its values, the keys of the second layer …"""
        self.present, self._memory = list(past), memory
        self._mask = None if mask is None else mask.bool()[:, None, None, :]

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        for at, new in ((2 * layer, keys), (2 * layer + 1, values)):  # new: (rows, heads, head_dim)
            self.present[at] = torch.cat([self.present[at], new.unsqueeze(2)], dim=2)
        return self.present[2 * layer], self.present[2 * layer + 1], None

    def memory(self, layer: int) -> Memory | None:
        return Memory(self._memory[2 * layer], self._memory[2 * layer + 1], self._mask)

    def keep_memory(self, layer: int, memory: Memory) -> None:
        raise NotImplementedError("the memory is given")


class EncoderProgram(nn.Module):
    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        model, sequences = self.model, PaddedSequences(attention_mask.bool(), input_ids.shape[1])
        x = model.source_embedding(model.tables["source"], input_ids.flatten(), sequences)
        memory = model.encoder(x, sequences=sequences)
        found: list[Tensor] = []
        for layer in model.decoder.layers:
            [attention] = [each for each in layer.sublayers if isinstance(each, CrossAttention)]
            found += attention.read_memory(memory, sequences)[:2]
        return tuple(found)


class DecoderProgram(nn.Module):
    def __init__(self, model: EncoderDecoder | SingleStack) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        past: list[Tensor],
        attention_mask: Tensor | None = None,
        memory: list[Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        model = self.model
        length = past[0].shape[2] + 1
        real = torch.ones((input_ids.shape[0], length), dtype=torch.bool, device=input_ids.device)
        step, cache = PaddedSequences(real, 1), GivenKeyValues(past, memory or [], attention_mask)
        if isinstance(model, EncoderDecoder):
            x = model.target_embedding(model.tables[model._target], input_ids.flatten(), step)
            # The cache holds the memory's keys and values, so the memory itself is not read.
            hidden = model.decoder(x, sequences=step, memory=x, memory_sequences=step, cache=cache)
        else:
            hidden = model.decode(input_ids.flatten(), step, cache)
        scores = model.head(hidden, model.output_table)
        return scores.unsqueeze(1), *cache.present


class WholeProgram(nn.Module):
    def __init__(self, model: SingleStack) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        model, sequences = self.model, PaddedSequences(attention_mask.bool(), input_ids.shape[1])
        x = model.embedding(model.tables["input"], input_ids.flatten(), sequences, token_type_ids.flatten())
        hidden = model.stack(x, sequences=sequences)
        if isinstance(model.head, ClassHead):
            return model.head(sequences.to_grid(hidden)[:, 0])  # (rows, classes)
        return sequences.to_grid(model.head(hidden, model.output_table))  # (rows, length, vocabulary)


def _ids(length: str) -> Tensor:
    return torch.ones(EXAMPLE[ROWS], EXAMPLE[length], dtype=torch.long)


def _encoder(model: EncoderDecoder) -> Program:
    tokens = {0: ROWS, 1: SOURCE}
    inputs = {"input_ids": _ids(SOURCE), "attention_mask": _ids(SOURCE)}
    axes = {"input_ids": tokens, "attention_mask": tokens}
    return Program(EncoderProgram(model), inputs, axes, _names("memory", len(model.decoder.layers)))


def _decoder(model: EncoderDecoder | SingleStack) -> Program:
    stack = model.decoder if isinstance(model, EncoderDecoder) else model.stack
    options, depth = model.options, len(stack.layers)
    heads, width = options.num_kv_heads or options.num_heads, options.model_dim // options.num_heads

    def states(what: str, length: str) -> dict[str, Tensor]:
        return {name: torch.zeros(EXAMPLE[ROWS], heads, EXAMPLE[length], width) for name in _names(what, depth)}

    inputs = {"input_ids": torch.ones(EXAMPLE[ROWS], 1, dtype=torch.long), **states("past", PAST)}
    axes = {"input_ids": {0: ROWS}, **{name: {0: ROWS, 2: PAST} for name in _names("past", depth)}}
    if isinstance(model, EncoderDecoder):
        inputs |= {"attention_mask": _ids(SOURCE), **states("memory", SOURCE)}
        axes |= {"attention_mask": {0: ROWS, 1: SOURCE}}
        axes |= {name: {0: ROWS, 2: SOURCE} for name in _names("memory", depth)}
    return Program(DecoderProgram(model), inputs, axes, ["logits", *_names("present", depth)])


def _whole(model: SingleStack) -> Program:
    tokens = {0: ROWS, 1: LENGTH}
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = {name: _ids(LENGTH) for name in names}
    inputs["token_type_ids"] = torch.zeros_like(inputs["token_type_ids"])
    return Program(WholeProgram(model), inputs, dict.fromkeys(names, tokens), ["logits"])


def _names(what: str, depth: int) -> list[str]:
    return [f"{what}_{kind}_{layer}" for layer in range(depth) for kind in ("keys", "values")]
