"""A residual scheme of your own: a sum that preserves variance, with the norm before the branch.

    x ← (x + f(LN(x))) ÷ √2

`add` makes it known to this process. As a file of a package, with an entry point in the group `lamina.schemes`, it is
known to every command, and to the processes of `lamina compare`.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn

import lamina
from lamina.residual import SCHEMES
from lamina.residual.base import Place, SingleStream, Site


class Averaged(SingleStream):
    placement = "pre"

    def site(self, place: Place) -> Site[Tensor]:
        return AveragedSite(self.new_norm())


class AveragedSite(Site[Tensor]):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def read(self, state: Tensor) -> Tensor:
        return self.norm(state)

    def write(self, state: Tensor, branch: Tensor) -> Tensor:
        return (state + branch) / sqrt(2)


SCHEMES.add("averaged", Averaged)

if __name__ == "__main__":
    sizes = {"num_layers": 12, "model_dim": 32, "num_heads": 4, "feed_forward_dim": 64, "vocab_size": 100}
    for scheme in ("pre-ln", "averaged"):
        torch.manual_seed(0)
        model = lamina.Transformer.from_preset("iwslt", residual=scheme, **sizes)
        batch = {"source": torch.randint(1, 100, (8, 12)), "target": torch.randint(1, 100, (8, 10))}
        report = lamina.diagnose(model, batch)
        norms = report["stream-norms"].select(quantity="stream", stack="encoder")[0].y
        print(f"{scheme}: E‖x‖² ÷ d is {norms[0]:.2f} before the first layer and {norms[-1]:.2f} after the last")
