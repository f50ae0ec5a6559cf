"""Looking at tensors as they pass, forwards and on the way back, without touching them.

A tensor is kept as an alias, never as a copy, and of its gradient only the norm is kept: autograd gets every bit that
it would have got with nobody looking.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lamina.diagnosis.recording.records import Seen

Key = tuple[int, int, int]


class Eyes:
    """Sees the tensors of one pass, each once, however often it is met."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Tensor, int, Seen]] = {}
        self._norms: list[tuple[Seen, Tensor]] = []

    def see(self, tensor: Tensor) -> Seen:
        if id(tensor) in self._seen:
            return self._seen[id(tensor)][2]
        seen = Seen(tensor.detach())
        self._seen[id(tensor)] = tensor, tensor._version, seen  # holding the tensor keeps its id from being used again
        if tensor.requires_grad:
            tensor.register_hook(self._note_norm_of(seen))  # type: ignore[no-untyped-call]
        return seen

    def see_parts(self, state: Tensor | tuple[Tensor, ...]) -> tuple[Seen, ...]:
        return tuple(self.see(part) for part in ((state,) if isinstance(state, Tensor) else state))

    def close(self) -> list[str]:
        """Fill in the norms, asking the device once, and let go of the graph; what a reader should know of it."""
        overwritten = sum(tensor._version != version for tensor, version, _ in self._seen.values())
        self._seen.clear()
        if self._norms:
            norms = torch.stack([norm.float() if norm.is_mps else norm.double() for _, norm in self._norms]).tolist()
            for (seen, _), norm in zip(self._norms, norms, strict=True):
                seen.gradient_norm = norm
        self._norms.clear()
        if not overwritten:
            return []
        return [f"{overwritten} recorded tensors were overwritten in place; their values are later ones"]

    def _note_norm_of(self, seen: Seen) -> Callable[[Tensor], None]:
        def note(gradient: Tensor) -> None:
            self._norms.append((seen, norm_of(gradient)))

        return note


def norm_of(tensor: Tensor) -> Tensor:
    """The Frobenius norm, summed in double precision: the square of a vanishing gradient is too small for single."""
    precision = torch.float32 if tensor.is_mps else torch.float64
    return torch.linalg.vector_norm(tensor.detach(), dtype=precision)


def key_of(tensor: Tensor) -> Key:
    """What a tensor shares with its views of the same elements."""
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset()), tensor.numel()
