"""A model of one stack."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.model.cache import Cache
from lamina.model.heads import AdaptiveHead, ClassHead, MaskedWordHead, WordHead, WordLosses
from lamina.model.options import ModelOptions, pair
from lamina.model.sequences import Lengths, Sequences, pack
from lamina.model.transformer import Transformer


class SingleStack(Transformer):
    """A language model (kind `decoder`, causal), or an encoder such as BERT (kind `encoder`)."""

    stack_names = ("stack",)

    def __init__(self, options: ModelOptions) -> None:
        super().__init__(options)
        vocab_size = pair(options.vocab_size)[0]
        self.tables["input"] = self._new_table(vocab_size)
        self._output = "input" if options.shared_embeddings != "none" else "output"
        if self._output not in self.tables and options.head in ("words", "masked-words"):
            self.tables["output"] = self._new_table(vocab_size)
        self.embedding = self._new_embedding()
        self.stack = self._new_stack(0, causal=options.kind == "decoder")
        self.head = self._new_head(vocab_size)
        self.initialise()

    def _new_head(self, vocab_size: int) -> nn.Module:
        options = self.options
        if options.head == "classes":
            return ClassHead(options.model_dim, options.num_classes, options.dropout)
        if options.head == "masked-words":
            return MaskedWordHead(options.model_dim, vocab_size, options.norm.build(options.model_dim))
        if options.head == "none":
            return nn.Identity()
        if options.adaptive_cutoffs:
            return AdaptiveHead(options.model_dim, len(options.adaptive_cutoffs) + 1)
        return WordHead()

    def forward(
        self,
        tokens: Tensor,
        *,
        lengths: Lengths | None = None,
        segments: Tensor | None = None,
        labels: Tensor | None = None,
        only: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Tensor | WordLosses:
        """Scores, or the stack's output where there is no head; with `labels`, the losses of the packed tokens instead.

        `only` holds indices of packed tokens: the head looks at no others, and labels are given for these alone.
        """
        if labels is not None and self.options.head in ("classes", "none"):
            raise UserError(f"a model with head {self.options.head!r} has no word losses; leave labels out")
        hidden, sequences = self.hidden(tokens, lengths, segments)
        if isinstance(self.head, ClassHead):
            return self.head(hidden[sequences.first])
        if isinstance(self.head, nn.Identity):
            return sequences.like(tokens, hidden)
        if only is not None:
            hidden = hidden[only]
        table = self.output_table
        if labels is not None:
            flat = labels if only is not None else pack(labels, sequences.counts, self.options.padding_index)[0]
            return self.head.losses(hidden, table, flat, smoothing)  # type: ignore[operator]
        scores = self.head(hidden, table)
        return scores if only is not None else sequences.like(tokens, scores)

    def hidden(
        self, tokens: Tensor, lengths: Lengths | None = None, segments: Tensor | None = None
    ) -> tuple[Tensor, Sequences]:
        """The stack's packed output and where its sequences stand."""
        ids, sequences = pack(tokens, lengths, self.options.padding_index)
        if segments is not None:
            segments = pack(segments, sequences.counts, self.options.padding_index)[0]
        x = self.embedding(self.tables["input"], ids, sequences, segments)
        return self.stack(x, sequences=sequences), sequences

    def step(self, ids: Tensor, lengths: Lengths, cache: Cache, *, last: bool = False) -> Tensor:
        """Scores after the next tokens of every row, or after the `last` of each; the cache takes them in."""
        if self.options.kind != "decoder" or self.options.head == "none":
            raise UserError("only a causal model (kind 'decoder') with a head can be decoded token by token")
        sequences = cache.next(lengths)
        x = self.embedding(self.tables["input"], ids, sequences)
        hidden = self.stack(x, sequences=sequences, cache=cache)
        cache.advance()
        return self.head(sequences.last_of(hidden) if last else hidden, self.output_table)

    def new_cache(self, num_rows: int, capacity: int) -> Cache:
        """For so many sequences, with room for `capacity` tokens in all rows of one together."""
        return Cache(self.stack.shape.num_layers, num_rows, capacity, next(self.parameters()).device)

    def calibrate(self, tokens: Tensor, *, lengths: Lengths | None = None, segments: Tensor | None = None) -> None:
        """Show the first training batch to a scheme that looks at one, at most 8,192 tokens."""
        if not self.wants_calibration:
            return
        ids, sequences = pack(tokens, lengths, self.options.padding_index)
        if segments is None:
            segments = torch.zeros_like(ids)
        segments = pack(segments, sequences.counts, self.options.padding_index)[0]
        with self.calibrating((ids, sequences), (segments, sequences)) as [(ids, sequences), (segments, _)]:
            x = self.embedding(self.tables["input"], ids, sequences, segments)
            self.stack.calibrate(x, sequences=sequences)

    def tables_of(self, stack_name: str) -> list[str]:
        return ["input"]
