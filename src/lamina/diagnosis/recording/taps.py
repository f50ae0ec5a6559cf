"""Taps record tensors of the forward pass and the norms of their gradients, without changing the computation.

A tensor is kept as an alias, never as a copy, and of its gradient only the norm is kept: autograd computes bit for bit
what it would compute without taps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lamina.diagnosis.recording.records import RecordedTensor

StorageKey = tuple[int, int, int]
"""Storage address, offset and number of elements: the same for a tensor and its views of the same elements."""


class Taps:
    """Records the tensors of one pass, each only once."""

    def __init__(self) -> None:
        self._recorded: dict[int, tuple[Tensor, int, RecordedTensor]] = {}
        self._norms: list[tuple[RecordedTensor, Tensor]] = []

    def record(self, tensor: Tensor) -> RecordedTensor:
        if id(tensor) in self._recorded:
            return self._recorded[id(tensor)][2]
        recorded = RecordedTensor(tensor.detach())
        # A reference to the tensor keeps its id from being used again.
        self._recorded[id(tensor)] = tensor, tensor._version, recorded
        if tensor.requires_grad:
            tensor.register_hook(self._norm_hook(recorded))  # type: ignore[no-untyped-call]
        return recorded

    def record_streams(self, state: Tensor | tuple[Tensor, ...]) -> tuple[RecordedTensor, ...]:
        """The residual streams of a state, which is one tensor or several."""
        return tuple(self.record(stream) for stream in ((state,) if isinstance(state, Tensor) else state))

    def close(self) -> list[str]:
        """Fill in the gradient norms with one transfer from the device, and release the graph; returns notes."""
        overwritten = sum(tensor._version != version for tensor, version, _ in self._recorded.values())
        self._recorded.clear()
        if self._norms:
            norms = torch.stack([norm.float() if norm.is_mps else norm.double() for _, norm in self._norms]).tolist()
            for (recorded, _), norm in zip(self._norms, norms, strict=True):
                recorded.gradient_norm = norm
        self._norms.clear()
        if not overwritten:
            return []
        return [f"{overwritten} recorded tensors were overwritten in place; their values are later ones"]

    def _norm_hook(self, recorded: RecordedTensor) -> Callable[[Tensor], None]:
        def keep_norm(gradient: Tensor) -> None:
            self._norms.append((recorded, norm_of(gradient)))

        return keep_norm


def norm_of(tensor: Tensor) -> Tensor:
    """The Frobenius norm, summed in double precision: the square of a vanishing gradient is too small for single."""
    precision = torch.float32 if tensor.is_mps else torch.float64
    return torch.linalg.vector_norm(tensor.detach(), dtype=precision)


def key_of(tensor: Tensor) -> StorageKey:
    """Identifies the elements of a tensor, whichever view of them it is."""
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset()), tensor.numel()
