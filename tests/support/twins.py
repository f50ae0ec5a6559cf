"""Two models with the same weights: which parameter of ours is which of theirs.

Weights are copied and gradients compared through the same pairs, and every trained parameter on either side must be
paired: nothing can agree because it was left at its initial value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lamina.model.attention import Attention

View = Callable[[Tensor], Tensor]


class Twin(NamedTuple):
    ours: Tensor
    theirs: Tensor
    view: View
    """Their weight in our layout: rows of a joint matrix, a transposition, another order of heads."""


class Twins:
    def __init__(self, ours: nn.Module, theirs: nn.Module) -> None:
        self.ours, self.theirs = ours, theirs
        self._pairs: list[Twin] = []

    def pair(self, ours: Any, theirs: Any, view: View = lambda weight: weight) -> None:
        self._pairs.append(Twin(ours, theirs, view))

    def module(self, ours: nn.Module, theirs: nn.Module) -> None:
        """Two modules whose parameters have the same names: matrices, norms, tables."""
        by_name = dict(ours.named_parameters())
        assert by_name.keys() == dict(theirs.named_parameters()).keys()
        for name, parameter in theirs.named_parameters():
            self.pair(by_name[name], parameter)

    def attention(self, ours: Attention, *theirs: nn.Module) -> None:
        """`theirs` are the query, key, value and output matrices."""
        for mine, other in zip((ours.query, ours.key, ours.value, ours.output), theirs, strict=True):
            self.module(mine, other)

    @torch.no_grad()
    def equalise(self, noise: float = 0.2) -> None:
        """Change all their weights from the initial values and copy them to ours."""
        trained = Counter(id(parameter) for parameter in self.ours.parameters() if parameter.requires_grad)
        assert trained == Counter(id(twin.ours) for twin in self._pairs)
        covered = Counter[int]()
        for twin in self._pairs:
            covered[id(twin.theirs)] += twin.view(twin.theirs).numel()
        their_trained = [parameter for parameter in self.theirs.parameters() if parameter.requires_grad]
        assert covered == {id(parameter): parameter.numel() for parameter in their_trained}
        for parameter in their_trained:
            parameter.add_(noise * torch.randn_like(parameter))
        for twin in self._pairs:
            twin.ours.copy_(twin.view(twin.theirs))

    def assert_agree(self, ours: Tensor, theirs: Tensor, tolerance: float = 1e-10) -> None:
        """The outputs, and the gradients of every weight along one random direction."""
        assert_close(ours, theirs, tolerance)
        direction = torch.randn_like(theirs)
        for model, output in ((self.ours, ours), (self.theirs, theirs)):
            model.zero_grad()
            output.backward(direction)
        for twin in self._pairs:
            assert twin.ours.grad is not None
            assert twin.theirs.grad is not None
            assert_close(twin.ours.grad, twin.view(twin.theirs.grad), tolerance)


def assert_close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Compare relative to the largest entry: small entries of a sum have the rounding errors of large ones."""
    size = max(1.0, theirs.detach().abs().max().item())
    torch.testing.assert_close(ours, theirs, atol=tolerance * size, rtol=tolerance)
