"""The parameters of a stack and the norm as a formula, for the `reference` functions of schemes.

Every scheme file ends with `reference(x, layers, p)`: the whole stack as a loop written from the paper, where
`layers[l][s]` is sub-layer s of layer l as a function, and p gives the parameters. It shares nothing else with the
scheme's class; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from lamina.residual.base import SchemeOptions, Shape
from lamina.residual.norm import NormOptions

Function = Callable[[Tensor], Tensor]
Layers = Sequence[Sequence[Function]]


class Parameters:
    """The parameters of a stack: `p.at(l, s, name)` of a sub-layer's site, `p.of(name)` of the scheme."""

    def __init__(self, tensors: Mapping[str, Tensor], shape: Shape, norm: NormOptions, options: SchemeOptions) -> None:
        self.tensors, self.shape, self.options, self._norm = tensors, shape, options, norm

    def at(self, layer: int, sublayer: int, name: str) -> Tensor:
        return self.tensors[f"layers.{layer}.sites.{sublayer}.{name}"]

    def of(self, name: str) -> Tensor:
        return self.tensors[f"residual.{name}"]

    def option(self, name: str) -> Any:
        return getattr(self.options, name)

    def norm(self, layer: int, sublayer: int, name: str = "norm", eps_factor: float = 1.0) -> Function:
        return self._formula(f"layers.{layer}.sites.{sublayer}.{name}", eps_factor)

    def end_norm(self, name: str = "final_norm", eps_factor: float = 1.0) -> Function:
        return self._formula(f"residual.{name}", eps_factor)

    def _formula(self, name: str, eps_factor: float) -> Function:
        gain, bias = self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias")
        eps, is_layer_norm = self._norm.eps * eps_factor, self._norm.kind == "layer"

        def normalise(x: Tensor) -> Tensor:
            centred = x - x.mean(-1, keepdim=True) if is_layer_norm else x
            scaled = centred / ((centred**2).mean(-1, keepdim=True) + eps).sqrt() * gain
            return scaled if bias is None else scaled + bias

        return normalise
