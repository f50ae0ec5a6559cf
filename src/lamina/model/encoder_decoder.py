"""The encoder–decoder."""

from __future__ import annotations

from torch import Tensor

from lamina.errors import UserError
from lamina.model.cache import Cache
from lamina.model.heads import WordHead, WordLosses
from lamina.model.options import ModelOptions, pair
from lamina.model.sequences import Lengths, Sequences, pack
from lamina.model.transformer import Transformer


class EncoderDecoder(Transformer):
    """Translation, headlines, speech: an encoder, and a causal decoder that looks at its output."""

    stack_names = ("encoder", "decoder")

    def __init__(self, options: ModelOptions) -> None:
        super().__init__(options)
        source_size, target_size = pair(options.vocab_size)
        self._target, self._output = {
            "all": ("source", "source"),
            "decoder": ("target", "target"),
            "none": ("target", "output"),
        }[options.shared_embeddings]
        self.tables["source"] = self._new_table(source_size)
        for name in dict.fromkeys((self._target, self._output)):
            if name not in self.tables:
                self.tables[name] = self._new_table(target_size)
        self.source_embedding, self.target_embedding = self._new_embedding(), self._new_embedding()
        self.encoder = self._new_stack(0)
        self.decoder = self._new_stack(1, causal=True, crossed=True)
        self.head = WordHead()
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
        """Scores of the next word at every target token; with `labels`, the losses of the packed tokens instead."""
        memory, memory_sequences = self.encode(source, source_lengths)
        ids, sequences = pack(target, target_lengths, self.options.padding_index)
        if sequences.num_sequences != memory_sequences.num_sequences:
            counts = f"{memory_sequences.num_sequences} source and {sequences.num_sequences} target"
            raise UserError(f"a batch pairs every source with one target, but there are {counts} sequences")
        hidden = self.decode(ids, sequences, memory, memory_sequences)
        table = self.output_table
        if labels is not None:
            flat = pack(labels, sequences.counts, self.options.padding_index)[0]
            return self.head.losses(hidden, table, flat, smoothing)
        return sequences.like(target, self.head(hidden, table))

    def encode(self, source: Tensor, lengths: Lengths | None = None) -> tuple[Tensor, Sequences]:
        """The encoder's packed output and where its sequences stand."""
        ids, sequences = pack(source, lengths, self.options.padding_index)
        x = self.source_embedding(self.tables["source"], ids, sequences)
        return self.encoder(x, sequences=sequences), sequences

    def decode(
        self, ids: Tensor, sequences: Sequences, memory: Tensor, memory_sequences: Sequences, cache: Cache | None = None
    ) -> Tensor:
        """The decoder's packed output; with a cache, for the tokens that come next."""
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
        """Scores after the next tokens of every row, or after the `last` of each; the cache takes them in."""
        sequences = cache.next(lengths)
        hidden = self.decode(ids, sequences, memory, memory_sequences, cache)
        cache.advance()
        return self.head(sequences.last_of(hidden) if last else hidden, self.output_table)

    def new_cache(self, num_rows: int, capacity: int) -> Cache:
        """For so many sentences, with room for `capacity` tokens in all rows of one together."""
        return Cache(self.decoder.shape.num_layers, num_rows, capacity, next(self.parameters()).device)

    def calibrate(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Lengths | None = None,
        target_lengths: Lengths | None = None,
    ) -> None:
        """Show the first training batch to the schemes that look at one, at most 8,192 tokens on either side."""
        if not self.wants_calibration:
            return
        padding = self.options.padding_index
        batch = pack(source, source_lengths, padding), pack(target, target_lengths, padding)
        with self.calibrating(*batch) as [(source, source_sequences), (target, target_sequences)]:
            x = self.source_embedding(self.tables["source"], source, source_sequences)
            memory = self.encoder.calibrate(x, sequences=source_sequences)
            if memory is None:
                memory = self.encoder(x, sequences=source_sequences)
            y = self.target_embedding(self.tables[self._target], target, target_sequences)
            self.decoder.calibrate(y, sequences=target_sequences, memory=memory, memory_sequences=source_sequences)

    def tables_of(self, stack_name: str) -> list[str]:
        """A shared table belongs to the encoder's scheme."""
        return ["source"] if stack_name == "encoder" else [name for name in self.tables if name == "target"]
