"""admin with ω in closed form against admin-torch, the authors' own package."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.model.models import EncoderDecoder
from lamina.model.sequences import pack
from lamina.model.stack import Stack
from support.small_models import SOURCE, TARGET, small_model
from support.twins import Twins

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("float64")]


class TheirStack(nn.Module):
    """Post-LN around our sub-layers as in admin-torch's documentation: residual module, then norm."""

    def __init__(self, admin_torch: Any, ours: Stack) -> None:
        super().__init__()
        count, dim = ours.shape.num_sublayers, ours.shape.model_dim
        self.sublayers = [sublayer for layer in ours.layers for sublayer in layer.sublayers]  # shared, not owned
        self.residuals = nn.ModuleList(
            admin_torch.as_module(count, "O(logn)", as_parameter=True, embed_dim=dim) for _ in range(count)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(count))
        self.takes = [keywords for layer in ours.layers for keywords in layer.keywords]

    def forward(self, x: Tensor, **context: Any) -> Tensor:
        steps = zip(self.sublayers, self.takes, self.residuals, self.norms, strict=True)
        for sublayer, keywords, residual, norm in steps:
            x = norm(residual(x, sublayer(x, **keywords.choose(context))))
        return x


def sites_of(stack: Stack) -> nn.ModuleList:
    return nn.ModuleList(site for layer in stack.layers for site in layer.sites)


def closed_form(num_layers: tuple[int, int]) -> EncoderDecoder:
    return small_model("admin", num_layers, residual_options={"omega": "closed-form"})


@pytest.mark.parametrize("num_layers", [(1, 1), (2, 6), (6, 2), (18, 18), (60, 12)])
def test_omega(admin_torch: Any, num_layers: tuple[int, int]) -> None:
    model = closed_form(num_layers)
    for stack, per_layer in ((model.encoder, 2), (model.decoder, 3)):
        theirs = admin_torch.as_module(per_layer * stack.shape.num_layers, "O(logn)", True, stack.shape.model_dim)
        for site in sites_of(stack):
            torch.testing.assert_close(site.omega, theirs.omega, atol=0, rtol=1e-14)


@pytest.mark.parametrize("num_layers", [(1, 1), (2, 6), (18, 18)])
def test_fixed_omega(admin_torch: Any, num_layers: tuple[int, int]) -> None:
    model = small_model("admin", num_layers, residual_options={"omega": "closed-form", "omega_form": "fixed"})
    for stack, per_layer in ((model.encoder, 2), (model.decoder, 3)):
        theirs = admin_torch.as_module(per_layer * stack.shape.num_layers, "O(logn)", as_parameter=False)
        assert not list(theirs.parameters())
        x, branch = torch.randn(2, 5, stack.shape.model_dim)
        for site in sites_of(stack):
            assert [name for name, _ in site.named_parameters()] == ["norm.weight", "norm.bias"]
            expected = site.norm(theirs(x, branch))  # their fixed ω is in single precision
            torch.testing.assert_close(site.write(x, branch), expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("num_layers", [(1, 1), (2, 2), (6, 6), (2, 6)])
@pytest.mark.parametrize("moved", [False, True])
def test_stacks(admin_torch: Any, num_layers: tuple[int, int], moved: bool) -> None:
    """With ω and norms as initialised, and with both changed, as training would change them."""
    model = closed_form(num_layers)
    source, source_sequences = pack(SOURCE, None, padding_index=0)
    target, target_sequences = pack(TARGET, None, padding_index=0)
    memory = {"memory": torch.randn(len(source), model.options.model_dim), "memory_sequences": source_sequences}
    for stack, ids, context in (
        (model.encoder, source, {"sequences": source_sequences}),
        (model.decoder, target, {"sequences": target_sequences, **memory}),
    ):
        theirs, sites = TheirStack(admin_torch, stack), sites_of(stack)
        twins = Twins(sites, theirs)
        for site, residual, norm in zip(sites, theirs.residuals, theirs.norms, strict=True):
            twins.pair(site.omega, residual.omega)
            twins.module(site.norm, norm)
        if moved:
            twins.equalise()
        x = torch.randn(len(ids), model.options.model_dim)
        twins.assert_agree(stack(x, **context), theirs(x, **context))
