"""What the models share: tables, embeddings, stacks, start values, folding.

Token ids come packed, `(tokens,)` with `lengths`, or padded, `(sequences, length)` with lengths or trailing padding.
Padded ids are packed on arrival: nothing is computed on padding, and outputs come back in the shape of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from lamina.model.attention import CrossAttention, SelfAttention
from lamina.model.embedding import AdaptiveTable, Band, Embedding
from lamina.model.feed_forward import FeedForward, LinearFeedForward
from lamina.model.heads import AdaptiveHead, ClassHead, MaskedWordHead
from lamina.model.options import ModelOptions, pair
from lamina.model.presets import preset
from lamina.model.sequences import Sequences
from lamina.model.stack import Stack
from lamina.model.start import start_table
from lamina.residual.base import Matrix

CALIBRATION_TOKENS = 8192


class Transformer(nn.Module):
    """The base of `EncoderDecoder` and `SingleStack`; `from_preset` and `build` give the right one."""

    stack_names: ClassVar[tuple[str, ...]]

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.options = options
        self.tables = cast(MutableMapping[str, Any], nn.ModuleDict())  # by name: input, source, target, output

    @staticmethod
    def from_preset(name: str, **changes: Any) -> Transformer:
        """A model of a paper's size: `Transformer.from_preset("iwslt", residual="b2t", num_layers=(18, 18))`."""
        return Transformer.build(preset(name, **changes))

    @staticmethod
    def build(options: ModelOptions) -> Transformer:
        from lamina.model.encoder_decoder import EncoderDecoder  # both subclass this
        from lamina.model.single_stack import SingleStack

        return EncoderDecoder(options) if options.kind == "encoder-decoder" else SingleStack(options)

    def stacks(self) -> Iterator[Stack]:
        for name in self.stack_names:
            yield self.get_submodule(name)  # type: ignore[misc]

    def tables_of(self, stack_name: str) -> list[str]:
        """The names of the embedding tables whose start values are that stack's affair."""
        raise NotImplementedError

    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def undecayed_parameters(self) -> Iterator[nn.Parameter]:
        """What the schemes want kept out of weight decay."""
        for stack in self.stacks():
            yield from stack.undecayed_parameters()

    @torch.no_grad()
    def start(self) -> None:
        """Draw all start values: tables and heads, then each stack's matrices and what its scheme makes of them."""
        for module in self.modules():
            if isinstance(module, Embedding | Band | MaskedWordHead | AdaptiveHead | ClassHead):
                module.start(self.options.init)
        for table in self.tables.values():
            if isinstance(table, nn.Embedding):
                start_table(table, self.options.init, self.options.padding_index)
        for name, stack in zip(self.stack_names, self.stacks(), strict=True):
            tables = [self.tables[table] for table in self.tables_of(name)]
            plain = [Matrix("embedding", table.weight) for table in tables if isinstance(table, nn.Embedding)]
            stack.start(self.options.init, plain)

    def fold(self) -> Self:
        """The same model as a plain one, for schemes that fold. Its options say what it has become."""
        stacks = list(self.stacks())
        plans = [stack.residual.folded() for stack in stacks]
        schemes, options = tuple(plan.scheme for plan in plans), tuple(plan.options for plan in plans)
        paired = len(stacks) > 1
        changes = {"residual": schemes if paired else schemes[0], "residual_options": options if paired else options[0]}
        plain = type(self)(self.options.model_copy(update=changes))
        rest = {key: value for key, value in self.state_dict().items() if not key.startswith(self.stack_names)}
        plain.load_state_dict(rest, strict=False)
        sample = next(self.parameters())
        plain.to(sample.device, sample.dtype).train(self.training)
        for name, stack in zip(self.stack_names, stacks, strict=True):
            setattr(plain, name, stack.fold())
        return plain

    @contextmanager
    def calibrating(self, *batch: tuple[Tensor, Sequences]) -> Iterator[list[tuple[Tensor, Sequences]]]:
        """The first sequences of a batch, at most 8,192 tokens on any side; training mode, random state kept."""
        count = min(sequences.num_fitting(CALIBRATION_TOKENS) for _, sequences in batch)
        was_training = self.training
        devices = [batch[0][0].device] if batch[0][0].is_cuda else []
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            self.train()
            yield [sequences.first_of(ids, count) for ids, sequences in batch]
        self.train(was_training)

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
        """The stack `which` of (encoder, decoder). Start values come later, with the tables'."""
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
            **pair(options.residual_options)[which],
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
    rotary = options.positions == "rotary"
    sublayers: list[nn.Module] = [SelfAttention(dim, heads, causal=causal, rotary=rotary, **attention)]
    if crossed:
        sublayers.append(CrossAttention(dim, heads, **attention))
    if options.activation == "linear":
        sublayers.append(LinearFeedForward(dim, bias=bias))
    else:
        activation, dropout = options.activation, options.activation_dropout
        sublayers.append(FeedForward(dim, options.feed_forward_dim, activation=activation, dropout=dropout, bias=bias))
    return sublayers
