"""Tensors of a foreign checkpoint under the names of Lamina's model, with a list of everything that does not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from lamina.errors import UserError


class WeightMapping:
    """Takes tensors by their foreign names and keeps them under Lamina's; `finish` refuses what did not fit."""

    def __init__(self, tensors: Mapping[str, Tensor], where: str) -> None:
        self.own: dict[str, Tensor] = {}
        """The weights of Lamina's model."""
        self._tensors, self._where = tensors, where
        self._left = set(tensors)
        self._problems: list[str] = []

    @property
    def names(self) -> tuple[str, ...]:
        """The foreign names of all tensors."""
        return tuple(self._tensors)

    def take(self, name: str, *shape: int) -> Tensor:
        """A tensor of this shape; one without values if it is missing or of another shape, which `finish` reports."""
        self._left.discard(name)
        found = self._tensors.get(name)
        if found is None:
            self._problems.append(f"{name}: missing; its shape would be {shape}")
        elif tuple(found.shape) != shape:
            self._problems.append(f"{name}: its shape is {tuple(found.shape)}, the config says {shape}")
        elif not found.is_floating_point():
            self._problems.append(f"{name}: not floating-point numbers but {str(found.dtype).removeprefix('torch.')}")
        else:
            return found.to(torch.float32)
        try:
            return torch.empty(shape, device="meta")  # a wrong config may ask for any size
        except RuntimeError:
            raise UserError(
                f"{self._where}: {name} would have the shape {shape}; the config is not that of a model"
            ) from None

    def linear(self, own: str, name: str, outputs: int, inputs: int, *, bias: bool = True) -> None:
        """A linear layer."""
        self.own[f"{own}.weight"] = self.take(f"{name}.weight", outputs, inputs)
        if bias:
            self.own[f"{own}.bias"] = self.take(f"{name}.bias", outputs)

    def norm(self, own: str, name: str, dim: int, *, bias: bool = True) -> None:
        """A layer norm, or an RMS norm, which has no bias."""
        for part in ("weight", "bias") if bias else ("weight",):
            self.own[f"{own}.{part}"] = self.take(f"{name}.{part}", dim)

    def finish(self, unused: str) -> dict[str, Tensor]:
        """The weights of Lamina's model.

        unused: a pattern of the names of tensors that the model does not need, such as stored masks and copies.
        """
        self._problems += [
            f"{name}: no place for it in the model that the config describes"
            for name in sorted(self._left)
            if not re.fullmatch(unused, name)
        ]
        self._problems += [
            f"{name}: has values that are not finite"
            for name, value in self.own.items()
            if not (value.is_meta or bool(torch.isfinite(value).all()))
        ]
        if self._problems:
            raise UserError(
                f"{self._where}: the tensors are not those of the model that the config describes:"
                + "".join(f"\n  {each}" for each in self._problems)
                + "\nCopy the whole checkpoint again, or give the config that belongs to it"
            )
        return self.own
