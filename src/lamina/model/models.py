"""The two models: `EncoderDecoder`, and `SingleStack` for language models and BERT."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.model.cache import Cache, KeyValues
from lamina.model.embedding import ConvolutionalFrontEnd
from lamina.model.heads import AdaptiveHead, ClassHead, CtcHead, MaskedWordHead, WordHead, WordLosses
from lamina.model.options import ModelOptions, pair
from lamina.model.sequences import Lengths, Sequences, pack
from lamina.model.transformer import Transformer


class EncoderDecoder(Transformer):
    """An encoder, and a causal decoder with attention over its output."""

    stack_names = ("encoder", "decoder")

    def __init__(self, options: ModelOptions) -> None:
        super().__init__(options)
        source_size, target_size = pair(options.vocab_size)
        self._target, self._output = {
            "all": ("source", "source"),
            "decoder": ("target", "target"),
            "none": ("target", "output"),
        }[options.shared_embeddings]
        self.front_end: ConvolutionalFrontEnd | None = None
        if options.feature_dim:
            self.front_end = ConvolutionalFrontEnd(options.feature_dim, options.front_end_channels, options.model_dim)
        else:
            self.tables["source"] = self._new_table(source_size)
        for name in dict.fromkeys((self._target, self._output)):
            if name not in self.tables:
                self.tables[name] = self._new_table(target_size)
        self.source_embedding, self.target_embedding = self._new_embedding(), self._new_embedding()
        self.encoder = self._new_stack(0)
        self.decoder = self._new_stack(1, causal=True, crossed=True)
        self.head = WordHead(target_size if options.output_bias else 0)
        self.ctc_head = CtcHead(options.model_dim, target_size) if options.ctc else None
        self.initialise()

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Lengths | None = None,
        target_lengths: Lengths | None = None,
        labels: Tensor | None = None,
        smoothing: float = 0.0,
    ) -> Tensor | WordLosses:
        """The scores of the next word at every target token; with `labels`, the losses of the packed tokens instead."""
        memory, memory_sequences = self.encode(source, source_lengths)
        ids, sequences = pack(target, target_lengths, self.options.padding_index)
        if sequences.num_sequences != memory_sequences.num_sequences:
            counts = f"{memory_sequences.num_sequences} source and {sequences.num_sequences} target"
            raise UserError(f"a batch pairs every source with one target, but there are {counts} sequences")
        hidden = self.decode(ids, sequences, memory, memory_sequences)
        table = self.output_table
        if labels is not None:
            flat = pack(labels, sequences.counts, self.options.padding_index)[0]
            losses = self.head.losses(hidden, table, flat, smoothing)
            if self.ctc_head is None:
                return losses
            # The decoder's labels end with eos, which has no place in the alignment.
            return losses._replace(ctc=self.ctc_head.losses(memory, memory_sequences, flat, sequences))
        return sequences.like(target, self.head(hidden, table))

    def encode(self, source: Tensor, lengths: Lengths | None = None) -> tuple[Tensor, Sequences]:
        """The encoder's packed output and the boundaries of its sequences.

        `source` are token ids, or packed frames (frames, features) with their lengths for a model of speech.
        """
        x, sequences = self._embed_source(source, lengths)
        return self.encoder(x, sequences=sequences), sequences

    def _embed_source(self, source: Tensor, lengths: Lengths | None) -> tuple[Tensor, Sequences]:
        if self.front_end is not None:
            if lengths is None:
                raise UserError("packed frames of speech need `source_lengths`, the number of frames of each utterance")
            x, sequences = self.front_end(source, lengths)
            return self.source_embedding.place(x, sequences), sequences
        ids, sequences = pack(source, lengths, self.options.padding_index)
        return self.source_embedding(self.tables["source"], ids, sequences), sequences

    def decode(
        self,
        ids: Tensor,
        sequences: Sequences,
        memory: Tensor,
        memory_sequences: Sequences,
        cache: KeyValues | None = None,
    ) -> Tensor:
        """The decoder's packed output; with a cache, for the next tokens only."""
        x = self.target_embedding(self.tables[self._target], ids, sequences)
        context = {"sequences": sequences, "memory": memory, "memory_sequences": memory_sequences, "cache": cache}
        return self.decoder(x, **context)

    def step(
        self,
        ids: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_sequences: Sequences,
        cache: Cache,
        *,
        last: bool = False,
    ) -> Tensor:
        """The scores after each of the next tokens of every row, or after the `last` of each; the cache stores the
        tokens."""
        sequences = cache.next(lengths)
        hidden = self.decode(ids, sequences, memory, memory_sequences, cache)
        cache.advance()
        return self.head(sequences.last_of(hidden) if last else hidden, self.output_table)

    def new_cache(self, num_rows: int, capacity: int) -> Cache:
        """A cache for a number of sentences, with `capacity` tokens for all rows of a sentence together."""
        return Cache(self.decoder.shape.num_layers, num_rows, capacity, next(self.parameters()).device)

    def calibrate(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Lengths | None = None,
        target_lengths: Lengths | None = None,
    ) -> None:
        """Run the calibration of schemes that have one, on at most 8,192 source and 8,192 target tokens of a batch."""
        if not self.needs_calibration:
            return
        padding = self.options.padding_index
        if self.front_end is None:
            packed = pack(source, source_lengths, padding)
        else:
            assert source_lengths is not None
            packed = source, Sequences(source_lengths, source.device)
        with self.calibrating(packed, pack(target, target_lengths, padding)) as batch:
            [(source, sequences), (target, target_sequences)] = batch
            x, source_sequences = self._embed_source(source, sequences.counts)
            memory = self.encoder.calibrate(x, sequences=source_sequences)
            if memory is None:
                memory = self.encoder(x, sequences=source_sequences)
            y = self.target_embedding(self.tables[self._target], target, target_sequences)
            self.decoder.calibrate(y, sequences=target_sequences, memory=memory, memory_sequences=source_sequences)

    def tables_of(self, stack_name: str) -> list[str]:
        """A table that both stacks share is initialised by the encoder's scheme."""
        own = "source" if stack_name == "encoder" else "target"
        return [name for name in self.tables if name == own]


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
        return WordHead(vocab_size if options.output_bias else 0)

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
        """The scores, or the stack's output if there is no head; with `labels`, the losses of the packed tokens
        instead.

        only: indices of packed tokens; the head is applied to these alone, and labels are given for these alone.
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
        """The stack's packed output and the boundaries of its sequences."""
        ids, sequences = pack(tokens, lengths, self.options.padding_index)
        if segments is not None:
            segments = pack(segments, sequences.counts, self.options.padding_index)[0]
        x = self.embedding(self.tables["input"], ids, sequences, segments)
        return self.stack(x, sequences=sequences), sequences

    def decode(self, ids: Tensor, sequences: Sequences, cache: KeyValues) -> Tensor:
        """The stack's packed output for the next tokens of a causal model."""
        return self.stack(self.embedding(self.tables["input"], ids, sequences), sequences=sequences, cache=cache)

    def step(self, ids: Tensor, lengths: Lengths, cache: Cache, *, last: bool = False) -> Tensor:
        """The scores after each of the next tokens of every row, or after the `last` of each; the cache stores the
        tokens."""
        if self.options.kind != "decoder" or self.options.head == "none":
            raise UserError("only a causal model (kind 'decoder') with a head can be decoded token by token")
        sequences = cache.next(lengths)
        hidden = self.decode(ids, sequences, cache)
        cache.advance()
        return self.head(sequences.last_of(hidden) if last else hidden, self.output_table)

    def new_cache(self, num_rows: int, capacity: int) -> Cache:
        """A cache for a number of sequences, with `capacity` tokens for all rows of a sequence together."""
        return Cache(self.stack.shape.num_layers, num_rows, capacity, next(self.parameters()).device)

    def calibrate(self, tokens: Tensor, *, lengths: Lengths | None = None, segments: Tensor | None = None) -> None:
        """Run the calibration of a scheme that has one, on at most 8,192 tokens of a batch."""
        if not self.needs_calibration:
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
