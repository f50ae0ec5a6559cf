"""The base class of the models: tables, embeddings, stacks, initialisation, calibration, folding.

Token ids are packed, `(tokens,)` with `lengths`, or padded, `(sequences, length)` with lengths or trailing padding.
Padded ids are packed first: nothing is computed on padding, and outputs have the shape of the input.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.formatting import size
from lamina.model.attention import CrossAttention, SelfAttention
from lamina.model.embedding import AdaptiveTable, ConvolutionalFrontEnd, Embedding
from lamina.model.feed_forward import FeedForward, LinearFeedForward
from lamina.model.heads import AdaptiveHead, ClassHead, CtcHead, MaskedWordHead
from lamina.model.initialisation import initialise_table
from lamina.model.modes import profiling
from lamina.model.options import ModelOptions, pair
from lamina.model.sequences import Sequences
from lamina.model.stack import Stack
from lamina.residual.base import Matrix

CALIBRATION_TOKENS = 8192
INITIALISED = (Embedding, AdaptiveTable, ConvolutionalFrontEnd, MaskedWordHead, AdaptiveHead, ClassHead, CtcHead)
"""The modules outside the stacks that have an `initialise` of their own."""


class Transformer(nn.Module):
    """The base class of `EncoderDecoder` and `SingleStack`; `from_preset` and `build` return one of these."""

    stack_names: ClassVar[tuple[str, ...]]
    _output: str

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.options = options
        self.tables = cast(MutableMapping[str, Any], nn.ModuleDict())  # by name: input, source, target, output

    @staticmethod
    def from_preset(name: str, **changes: Any) -> Transformer:
        """A model of a paper's size: `Transformer.from_preset("iwslt", residual="b2t", num_layers=(18, 18))`."""
        return Transformer.build(ModelOptions.read({"preset": name} | changes, where=f"preset {name!r}"))

    @staticmethod
    def build(options: ModelOptions) -> Transformer:
        """The model of these options."""
        from lamina.model.models import (
            EncoderDecoder,  # both subclass this
            SingleStack,
        )

        kind = EncoderDecoder if options.kind == "encoder-decoder" else SingleStack
        try:
            return kind(options)
        except (RuntimeError, MemoryError) as error:
            if not _is_lack_of_memory(error):
                raise
            raise UserError(f"the model does not fit into memory: {_describe_size(kind, options)}") from None

    def stacks(self) -> Iterator[Stack]:
        for name in self.stack_names:
            yield self.get_submodule(name)  # type: ignore[misc]

    def tables_of(self, stack_name: str) -> list[str]:
        """The names of the embedding tables that the scheme of that stack initialises."""
        raise NotImplementedError

    @property
    def output_table(self) -> Any:
        """The table of the output layer."""
        return self.tables[self._output]

    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def undecayed_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters that the schemes exclude from weight decay."""
        for stack in self.stacks():
            yield from stack.undecayed_parameters()

    @torch.no_grad()
    def initialise(self) -> None:
        """Initialise all weights: embeddings and heads, then the tables and matrices of each stack, by its scheme."""
        for module in self.modules():
            if isinstance(module, INITIALISED):
                module.initialise(self.options.init)
        if "output" in self.tables:
            tables = self._initialise_tables("output", self.options.init)
            if [*self.stacks()][-1].residual.zero_output_table:
                for table in tables:
                    table.weight.zero_()
        for name, stack in zip(self.stack_names, self.stacks(), strict=True):
            init = stack.residual.base_initialisation or self.options.init
            tables = [table for owned in self.tables_of(name) for table in self._initialise_tables(owned, init)]
            stack.initialise(self.options.init, [Matrix("embedding", table.weight) for table in tables])

    def _initialise_tables(self, name: str, init: str) -> list[nn.Embedding]:
        """Initialise the table of that name, or its bands; the padding row is zero."""
        table, padding = self.tables[name], self.options.padding_index
        bands = [(each.low, each.table) for each in table.bands] if isinstance(table, AdaptiveTable) else [(0, table)]
        for first, band in bands:
            inside = 0 <= padding - first < band.num_embeddings
            initialise_table(band, init, padding - first if inside else None)
        return [band for _, band in bands]

    def fold(self) -> Self:
        """The model with each scheme folded into a plain one that gives the same outputs; its options name that
        scheme."""
        stacks = list(self.stacks())
        plans = [stack.residual.folded() for stack in stacks]
        schemes, options = tuple(plan.scheme for plan in plans), tuple(plan.options for plan in plans)
        paired = len(stacks) > 1
        changes = {"residual": schemes if paired else schemes[0], "residual_options": options if paired else options[0]}
        folded = [stack.fold() for stack in stacks]
        plain = copy.deepcopy(self)
        plain.options = ModelOptions(**dict(self.options) | changes)
        for name, stack in zip(self.stack_names, folded, strict=True):
            setattr(plain, name, stack)
        return plain

    @contextmanager
    def calibrating(self, *batch: tuple[Tensor, Sequences]) -> Iterator[list[tuple[Tensor, Sequences]]]:
        """The first sequences of a batch, at most 8,192 tokens on each side; modes and random state are restored."""
        count = min(sequences.num_fitting(CALIBRATION_TOKENS) for _, sequences in batch)
        with profiling(self, batch[0][0]):
            yield [sequences.first_of(ids, count) for ids, sequences in batch]

    @property
    def needs_calibration(self) -> bool:
        return any(stack.residual.needs_calibration for stack in self.stacks())

    def _new_table(self, vocab_size: int) -> nn.Module:
        options = self.options
        if options.adaptive_cutoffs:
            return AdaptiveTable(vocab_size, options.model_dim, options.adaptive_cutoffs, options.adaptive_factor)
        return nn.Embedding(vocab_size, options.model_dim)

    def _new_embedding(self) -> Embedding:
        options = self.options
        return Embedding(
            options.model_dim,
            scaled=options.scale_embeddings,
            positions=options.positions,
            max_length=options.max_length,
            num_segments=options.num_segments,
            norm=options.norm.build(options.model_dim) if options.embedding_norm else None,
            dropout=options.dropout if options.embedding_dropout is None else options.embedding_dropout,
        )

    def _new_stack(self, which: int, *, causal: bool = False, crossed: bool = False) -> Stack:
        """The stack `which` of (encoder, decoder); it is initialised later, together with the tables."""
        options, depths = self.options, pair(self.options.num_layers)
        in_pair = options.kind == "encoder-decoder"
        return Stack(
            [_new_layer(options, layer, causal=causal, crossed=crossed) for layer in range(depths[which])],
            model_dim=options.model_dim,
            residual=pair(options.residual)[which],
            norm=options.norm,
            dropout=options.dropout,
            init=None,
            part_of=("encoder", "decoder")[which] if in_pair else "single",
            other_num_layers=depths[1 - which] if in_pair else 0,
            checkpoint_layers=options.checkpoint_layers,
            **dict(pair(options.residual_options)[which]),
        )


def _new_layer(options: ModelOptions, layer: int, *, causal: bool, crossed: bool) -> list[nn.Module]:
    dim, heads, bias = options.model_dim, options.num_heads, options.bias
    attention: dict[str, Any] = {
        "num_kv_heads": options.num_kv_heads,
        "dropout": options.attention_dropout,
        "bias": bias,
        "output_matrix": options.attention_output,
        "layer": layer,
    }
    rotary: dict[str, Any] = {"rotary": options.positions == "rotary", "rotary_base": options.rotary_base}
    sublayers: list[nn.Module] = [SelfAttention(dim, heads, causal=causal, **rotary, **attention)]
    if crossed:
        sublayers.append(CrossAttention(dim, heads, **attention))
    if options.activation == "linear":
        sublayers.append(LinearFeedForward(dim, bias=bias))
    else:
        activation, dropout = options.activation, options.activation_dropout
        sublayers.append(FeedForward(dim, options.feed_forward_dim, activation=activation, dropout=dropout, bias=bias))
    return sublayers


def _is_lack_of_memory(error: Exception) -> bool:
    """Whether torch could not allocate a tensor; on a CPU it says so by the message alone."""
    words = ("can't allocate memory", "not enough memory", "out of memory", "overflowed")
    return isinstance(error, MemoryError) or any(each in str(error) for each in words)


def _describe_size(kind: type[Transformer], options: ModelOptions) -> str:
    """The size of a model that could not be built, and what to do."""
    remedy = "make it smaller (model_dim, feed_forward_dim, num_layers); lamina plan estimates what a run needs"
    try:
        with torch.device("meta"):
            parameters = kind(options).num_parameters()
    except RuntimeError:  # a matrix with more elements than can be counted
        return remedy
    return f"{parameters:,} parameters, of which the weights alone take {size(4 * parameters)} in fp32; {remedy}"
