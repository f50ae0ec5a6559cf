"""The output layers: scores over the vocabulary, or over classes.

A head that predicts words is called with the output table, which may be the embedding table. `forward` returns the
scores of all words, `losses` the losses of the labels: an adaptive softmax does not need all scores for these.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.model.embedding import AdaptiveTable
from lamina.model.initialisation import initialise_matrix
from lamina.model.kernels.dropout import Dropout
from lamina.model.sequences import Sequences
from lamina.residual.base import Matrix
from lamina.residual.norm import without_autocast


def log_softmax(scores: Tensor) -> Tensor:
    """Log-softmax, at least in single precision: a loss is a small difference of large sums."""
    with without_autocast(scores):
        return F.log_softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


class WordLosses(NamedTuple):
    """The losses of each token, in nats."""

    smoothed: Tensor  # (tokens,): the loss that training minimises, label smoothing included
    nll: Tensor  # (tokens,): the negative log-likelihood
    ctc: Tensor | None = None  # (sequences,): the CTC loss of the encoder's output layer


class WordHead(nn.Module):
    """Logits: the product of the hidden state with the rows of the output table, and a bias where there is one."""

    bias: nn.Parameter | None

    def __init__(self, vocab_size: int = 0) -> None:
        """vocab_size: the number of words if they have a bias."""
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if vocab_size else None

    def forward(self, hidden: Tensor, table: nn.Embedding) -> Tensor:
        return F.linear(hidden, table.weight, self.bias)  # (tokens, vocabulary)

    def losses(self, hidden: Tensor, table: nn.Embedding, targets: Tensor, smoothing: float = 0.0) -> WordLosses:
        """The losses of the targets; `smoothing` is the probability mass spread evenly over the vocabulary."""
        log_probabilities = log_softmax(self(hidden, table))
        nll = F.nll_loss(log_probabilities, targets, reduction="none")
        if not smoothing:
            return WordLosses(nll, nll)
        return WordLosses((1 - smoothing) * nll - smoothing * log_probabilities.mean(-1), nll)


class MaskedWordHead(WordHead):
    """BERT's head: a matrix, GELU and a norm before the table, a bias after it (Devlin et al. 2019)."""

    def __init__(self, dim: int, vocab_size: int, norm: nn.Module) -> None:
        super().__init__(vocab_size)
        self.dense, self.norm = nn.Linear(dim, dim), norm

    def initialise(self, init: str) -> None:
        initialise_matrix(Matrix("output", self.dense.weight, self.dense.bias), init)

    def forward(self, hidden: Tensor, table: nn.Embedding) -> Tensor:
        return super().forward(self.norm(F.gelu(self.dense(hidden))), table)


class AdaptiveHead(nn.Module):
    """Adaptive softmax (Grave et al. 2017) that shares tables and projections with an adaptive input.

    The words of the first band and one entry per further band form the head distribution; the probability of a word of
    band b is that of its band times its own within the band.
    """

    def __init__(self, dim: int, num_bands: int) -> None:
        super().__init__()
        self.band_scores = nn.Linear(dim, num_bands - 1, bias=False)

    def initialise(self, init: str) -> None:
        initialise_matrix(Matrix("output", self.band_scores.weight), init)

    def forward(self, hidden: Tensor, table: AdaptiveTable) -> Tensor:
        """Log-probabilities of all words."""
        shortlist, *rest = table.bands
        head = self._head(hidden, table)
        parts = [head[:, : shortlist.high]]
        for entry, band in enumerate(rest, start=shortlist.high):
            parts.append(head[:, entry, None] + log_softmax(band.scores(hidden)))
        return torch.cat(parts, dim=-1)  # (tokens, vocabulary)

    def losses(self, hidden: Tensor, table: AdaptiveTable, targets: Tensor, smoothing: float = 0.0) -> WordLosses:
        if smoothing:
            raise UserError(
                "label smoothing needs the scores of all words, which an adaptive softmax avoids; set it to 0"
            )
        shortlist, *rest = table.bands
        head = self._head(hidden, table)
        losses = torch.zeros_like(head[:, 0])
        entries = targets.clone()  # the target's index in the head distribution
        for entry, band in enumerate(rest, start=shortlist.high):
            inside = (targets >= band.low) & (targets < band.high)
            entries[inside] = entry
            scores = log_softmax(band.scores(hidden[inside]))
            losses[inside] = F.nll_loss(scores, targets[inside] - band.low, reduction="none")
        losses = losses - head.gather(1, entries[:, None]).squeeze(1)
        return WordLosses(losses, losses)

    def _head(self, hidden: Tensor, table: AdaptiveTable) -> Tensor:
        scores = torch.cat([table.bands[0].scores(hidden), self.band_scores(hidden)], dim=-1)
        return log_softmax(scores)


class CtcHead(nn.Module):
    """Connectionist temporal classification (Graves et al. 2006) on the encoder's output, as an auxiliary loss.

    The blank is the padding token's entry, 0, which no target contains.
    """

    def __init__(self, dim: int, vocab_size: int) -> None:
        super().__init__()
        self.output = nn.Linear(dim, vocab_size)

    def initialise(self, init: str) -> None:
        initialise_matrix(Matrix("output", self.output.weight, self.output.bias), init)

    def forward(self, hidden: Tensor) -> Tensor:
        return log_softmax(self.output(hidden))  # (frames, vocabulary)

    def losses(self, hidden: Tensor, sequences: Sequences, labels: Tensor, label_sequences: Sequences) -> Tensor:
        """-ln p(labels without the last, which is eos | speech) of each utterance: (sequences,).

        It is 0 for an utterance with too few frames for its labels, which no alignment fits.
        """
        grid = sequences.to_grid(self(hidden)).transpose(0, 1)  # (frames, sequences, vocabulary)
        targets = label_sequences.to_grid(labels)  # (sequences, labels)
        if grid.is_meta:
            return _ctc_on_meta(grid, targets)
        counts = torch.from_numpy(label_sequences.counts - 1)
        return F.ctc_loss(
            grid, targets, torch.from_numpy(sequences.counts), counts, reduction="none", zero_infinity=True
        )


def _ctc_on_meta(grid: Tensor, targets: Tensor) -> Tensor:
    """A loss of the shape of CTC's that keeps as much for the backward pass: torch has no CTC without values, and the
    memory of a model is planned without them."""
    forward_variables = grid.new_empty((*grid.shape[:2], 2 * targets.shape[1] + 1))  # labels with blanks between them
    return (grid.logsumexp(-1, keepdim=True) * forward_variables).sum((0, 2))


class ClassHead(nn.Module):
    """BERT's fine-tuning head: a matrix and tanh on the first token of a sequence, then scores over classes."""

    def __init__(self, dim: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dense, self.dropout, self.output = nn.Linear(dim, dim), Dropout(dropout), nn.Linear(dim, num_classes)

    def initialise(self, init: str) -> None:
        for linear in (self.dense, self.output):
            initialise_matrix(Matrix("output", linear.weight, linear.bias), init)

    def forward(self, first: Tensor) -> Tensor:
        return self.output(self.dropout(torch.tanh(self.dense(first))))  # (sequences, classes)
