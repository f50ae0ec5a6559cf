"""The stack's input: from token ids or frames of speech, with scale, positions, segments, norm and dropout.

Sinusoidal and learned positions are added to the embedding; rotary positions rotate queries and keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.model.initialisation import initialise_table
from lamina.model.kernels.dropout import Dropout
from lamina.model.sequences import Lengths, Sequences

BASE = 10_000.0
"""The base of the wavelengths of sinusoidal positions, and of rotary ones by default."""
_KERNEL, _STRIDE = 5, 2  # of the front end's convolutions


class AdaptiveTable(nn.Module):
    """Adaptive input: rare words have narrower embeddings, projected to full width by a matrix (Baevski & Auli 2019).

    Band i has the words between two cut-offs, `factor`^i times narrower than the model. Word ids must be sorted by
    decreasing frequency.
    """

    def __init__(self, num_words: int, dim: int, cutoffs: tuple[int, ...], factor: int) -> None:
        super().__init__()
        if list(cutoffs) != sorted({*cutoffs}) or cutoffs[0] < 1 or cutoffs[-1] >= num_words:
            raise UserError(f"adaptive_cutoffs {cutoffs} must rise and lie between 1 and the vocabulary of {num_words}")
        edges = (0, *cutoffs, num_words)
        widths = [max(1, dim // factor**band) for band in range(len(cutoffs) + 1)]
        self.dim, self.num_words = dim, num_words
        bands = zip(edges[:-1], edges[1:], widths, strict=True)
        self.bands = cast(
            Sequence[FrequencyBand], nn.ModuleList(FrequencyBand(low, high, width, dim) for low, high, width in bands)
        )

    def initialise(self, init: str) -> None:
        """Initialise the projections; the model initialises the tables, since the scheme may change them."""
        for band in self.bands:
            nn.init.xavier_uniform_(band.projection.weight)

    def forward(self, ids: Tensor) -> Tensor:
        if ids.device.type == "cpu" and bool(((ids < 0) | (ids >= self.num_words)).any()):
            raise UserError(f"a token id is outside the vocabulary of {self.num_words}")
        output: Tensor | None = None
        for band in self.bands:
            inside = (ids >= band.low) & (ids < band.high)
            embedded = band(ids[inside])
            output = embedded.new_zeros(*ids.shape, self.dim) if output is None else output
            output[inside] = embedded
        assert output is not None
        return output


class FrequencyBand(nn.Module):
    """The words low … high−1: a narrow table and the projection to full width."""

    def __init__(self, low: int, high: int, width: int, dim: int) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.table = nn.Embedding(high - low, width)
        self.projection = nn.Linear(width, dim, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.projection(self.table(ids - self.low))

    def scores(self, hidden: Tensor) -> Tensor:
        """The logits of the band's words, from the same table and projection."""
        return F.linear(hidden @ self.projection.weight, self.table.weight)


class Embedding(nn.Module):
    """Everything between the embedding table and the first layer. The table is an argument, since it may be shared."""

    def __init__(
        self,
        dim: int,
        *,
        scaled: bool,
        positions: str,
        max_length: int,
        num_segments: int,
        norm: nn.Module | None,
        dropout: float,
    ) -> None:
        super().__init__()
        self.dim, self.scale = dim, dim**0.5 if scaled else 1.0
        self.positions: nn.Module | None = None
        if positions == "sinusoidal":
            self.positions = Sinusoids(dim)
        elif positions == "learned":
            self.positions = LearnedPositions(max_length, dim)
        self.segments = nn.Embedding(num_segments, dim) if num_segments else None
        self.norm = nn.Identity() if norm is None else norm
        self.dropout = Dropout(dropout)

    def initialise(self, init: str) -> None:
        if isinstance(self.positions, LearnedPositions):
            initialise_table(self.positions.table, init)
        if self.segments is not None:
            initialise_table(self.segments, init)

    def forward(self, table: nn.Module, ids: Tensor, sequences: Sequences, segments: Tensor | None = None) -> Tensor:
        try:
            embedded = table(ids)
        except IndexError:  # on a CPU; a GPU ends the process
            low, high, size = int(ids.min()), int(ids.max()), cast(nn.Embedding, table).num_embeddings
            raise UserError(
                f"token ids must lie between 0 and {size - 1}, but go from {low} to {high}; use the model's own "
                "tokenizer, or build the model with a larger vocab_size"
            ) from None
        return self.place(embedded, sequences, segments)

    def place(self, embedded: Tensor, sequences: Sequences, segments: Tensor | None = None) -> Tensor:
        """The stack's input from embedded tokens, or from the vectors of a front end: (tokens, dim)."""
        x = embedded * self.scale
        if self.positions is not None:
            x = x + self.positions(sequences.positions, sequences.longest, like=x)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(sequences.positions) if segments is None else segments)
        return self.dropout(self.norm(x))


class ConvolutionalFrontEnd(nn.Module):
    """The subsampler of fairseq S2T (Wang et al. 2020): from log-mel frames to a quarter as many vectors.

        frames ─ convolution, stride 2 ─ GLU ─ convolution, stride 2 ─ GLU ─► (frames / 4, model_dim)

    Every utterance is padded with zeros before each convolution, so its output does not depend on the other utterances
    of the batch.
    """

    def __init__(self, num_bins: int, channels: int, model_dim: int) -> None:
        super().__init__()
        self.num_bins = num_bins
        sizes = ((num_bins, channels), (channels // 2, 2 * model_dim))
        self.convolutions = cast(
            Iterable[nn.Conv1d],
            nn.ModuleList(nn.Conv1d(read, made, _KERNEL, _STRIDE, padding=_KERNEL // 2) for read, made in sizes),
        )

    def initialise(self, init: str) -> None:
        """Draw U(±1/√inputs) for weights and biases, as PyTorch and fairseq do, whatever `init` is."""
        for convolution in self.convolutions:
            convolution.reset_parameters()

    def forward(self, frames: Tensor, lengths: Lengths) -> tuple[Tensor, Sequences]:
        """(frames, bins) → (vectors, model_dim), packed, and the boundaries of the shorter sequences."""
        if frames.dim() != 2 or frames.shape[1] != self.num_bins:
            raise UserError(f"packed features must be (frames, {self.num_bins}), not {tuple(frames.shape)}")
        sequences = Sequences(lengths, frames.device)
        if sequences.num_tokens != len(frames):
            raise UserError(f"the lengths add up to {sequences.num_tokens} frames, but there are {len(frames)}")
        x = frames.to(next(self.parameters()).dtype)
        for convolution in self.convolutions:
            grid = convolution(sequences.to_grid(x).transpose(1, 2))  # (sequences, 2 · channels, length / 2)
            sequences = Sequences(_shortened(sequences), frames.device)
            x = sequences.from_grid(F.glu(grid, dim=1).transpose(1, 2))
        return x, sequences


def _shortened(sequences: Sequences) -> Lengths:
    """The lengths after one convolution: ⌈n / 2⌉."""
    return (sequences.counts + _STRIDE - 1) // _STRIDE


class Sinusoids(nn.Module):
    """PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos of the same (Vaswani et al. 2017, section 3.5)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, positions: Tensor, longest: int, like: Tensor) -> Tensor:
        """(tokens,) → (tokens, dim). The table is computed for the positions in use, so that there is no length
        limit."""
        angles = torch.arange(longest, device=positions.device).unsqueeze(1) * frequencies(self.dim, positions.device)
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, : self.dim]
        return table.to(like.dtype)[positions]


class LearnedPositions(nn.Module):
    """A learned embedding for every position below `max_length`."""

    def __init__(self, max_length: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, dim)

    def forward(self, positions: Tensor, longest: int, like: Tensor) -> Tensor:
        if longest > self.table.num_embeddings:
            raise UserError(
                f"a sequence of {longest} tokens is longer than the {self.table.num_embeddings} learned positions; "
                "shorten it, or build the model with a larger max_length"
            )
        return self.table(positions)


def rotate(x: Tensor, positions: Tensor, base: float = BASE) -> Tensor:
    """Rotary positions (Su et al. 2021): rotate each pair of channels of (tokens, heads, head_dim) by its angle."""
    angles = positions.unsqueeze(1) * frequencies(x.shape[-1], x.device, base)  # (tokens, head_dim / 2)
    cos, sin = angles.cos().unsqueeze(1).to(x.dtype), angles.sin().unsqueeze(1).to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def frequencies(dim: int, device: torch.device, base: float = BASE) -> Tensor:
    """base^(-2i/d) for i = 0 … d/2, at least in single precision, because angles are large."""
    dtype = torch.promote_types(torch.get_default_dtype(), torch.float32)
    return base ** (-torch.arange(0, dim, 2, device=device, dtype=dtype) / dim)
