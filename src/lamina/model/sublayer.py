"""What Lamina's own sub-layers have beyond `forward`; foreign ones need none of it."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from lamina.residual.base import Matrix


class Sublayer(nn.Module):
    kind: str
    """`self-attention`, `cross-attention` or `feed-forward`."""
    slot: nn.Module
    """What a scheme may put before the last matrix; nothing by default."""

    def __init__(self) -> None:
        super().__init__()
        self.slot = nn.Identity()

    def matrices(self) -> Iterator[Matrix]:
        """The weight matrices by role, for schemes that set start values or fold."""
        raise NotImplementedError
