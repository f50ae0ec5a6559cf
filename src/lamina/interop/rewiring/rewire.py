"""`lamina.rewire(model, "resi-dual")`: another residual scheme in a model of transformers, in place.

The sub-layers stay; the scheme's sites take the place of their norms, and `close` that of the final norm. A new
model is initialised by the scheme's rule; the weights of the embeddings and the head stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lamina import residual as schemes
from lamina.errors import UserError
from lamina.interop.library import require
from lamina.interop.rewiring.families import CONFIGS, Family, find_families
from lamina.interop.rewiring.streams import StreamEnd, Streams, Wiring, rewire_layer
from lamina.model.initialisation import Initialisation
from lamina.model.modes import profiling
from lamina.model.stack import Stack
from lamina.options import Options
from lamina.residual.base import Matrix, Residual
from lamina.residual.norm import NormOptions


class RewireOptions(Options):
    """What is stored in the config of a rewired model."""

    residual: str
    """The residual scheme."""
    residual_options: dict[str, Any] = {}
    """The scheme's own options."""
    norm: NormOptions
    """The norm of its sites."""


def rewire(
    model: Any,
    residual: str,
    *,
    keep_weights: bool | None = None,
    init: Initialisation = "xavier",
    norm: NormOptions | Mapping[str, Any] | None = None,
    batch: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Give a model of transformers another residual scheme, in place; returns the model.

    model: a BERT, RoBERTa, GPT-2, Llama, Qwen, BART, Marian, T5 or ViT, with any head.
    residual: the scheme; `lamina schemes` lists them. Those whose state grows with depth are refused.
    keep_weights: whether the weights of the layers stay as they are. By default they do where the model has the scheme
        already; for another scheme they are initialised by its rule, since trained weights belong to their scheme.
    init: the base initialisation, which the scheme changes.
    norm: the norm of the scheme, such as {"kind": "rms"}; by default the model's own kind and ε.
    batch: the arguments of the model, for schemes that are calibrated on a batch, such as admin.
    options: the scheme's own options.
    """
    families = _check(model, residual)
    scheme = schemes.find(residual)
    chosen = RewireOptions.read(
        {
            "residual": scheme.name,
            "residual_options": options,
            "norm": _norm_of(*families[0]) if norm is None else norm,
        },
        where="rewire",
    )
    if keep_weights is None:
        keep_weights = all(family.scheme is scheme for _, family in families)
    former = [_norms(holder, family) for holder, family in families]
    connected = connect(model, chosen)
    embedding = model.get_input_embeddings()
    for each, norms in zip(connected, former, strict=True):
        if keep_weights:
            _copy_norms(each, norms)
        else:
            tables = [Matrix("embedding", embedding.weight)] if each is connected[0] and _is_table(embedding) else []
            each.stack.initialise(init, tables)
    calibrate(model, connected, batch)
    from lamina.interop.rewiring.saved import adopt

    return adopt(model, chosen)


class Connected(NamedTuple):
    """A stack of a rewired model: Lamina's view of its sub-layers, and the wirings of its layers."""

    stack: Stack
    wirings: list[Wiring]
    part_of: str


def connect(model: nn.Module, chosen: RewireOptions) -> list[Connected]:
    """Replace norms and residual sums of all stacks by the scheme; weights are left as they are."""
    families = find_families(model)
    depths = {family.part_of: len(getattr(holder, family.layers)) for holder, family in families}
    return [_connect(holder, family, chosen, depths) for holder, family in families]


def _connect(holder: Any, family: Family, chosen: RewireOptions, depths: Mapping[str, int]) -> Connected:
    layers = list(getattr(holder, family.layers))
    other = {"encoder": "decoder", "decoder": "encoder"}.get(family.part_of, "")
    in_pair = other in depths  # a decoder may be used alone, and so may an encoder
    sample = next(layers[0].parameters())
    stack = Stack(
        [[_weights(layer, each.weights, each.reads_memory) for each in family.sublayers] for layer in layers],
        model_dim=layers[0].get_submodule(family.sublayers[0].norm).weight.shape[0],
        residual=chosen.residual,
        norm=chosen.norm,
        roles=family.roles,
        init=None,
        part_of=family.part_of if in_pair else "single",
        other_num_layers=depths[other] if in_pair else 0,
        **chosen.residual_options,
    )
    _refuse_slots(stack)
    residual = stack.residual.to(sample.device, sample.dtype)
    holder.lamina_residual = residual
    streams, wirings = Streams(residual), []
    for number, (layer, own) in enumerate(zip(layers, stack.layers, strict=True)):
        for site in own.sites:
            site.to(sample.device, sample.dtype)
        closes = family.final_norm is None and number == len(layers) - 1
        wirings.append(Wiring(family, streams, opens=number == 0, closes=closes))
        rewire_layer(layer, own.sites, wirings[-1])
    if family.final_norm is not None:
        setattr(holder, family.final_norm, StreamEnd(streams))
    return Connected(stack, wirings, family.part_of)


class Weights(nn.Module):
    """The weights of a library's sub-layer under one roof, for their roles; the layer itself computes with them."""

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError("the library's layer computes this sub-layer")


class CrossWeights(Weights):
    """The weights of a sub-layer that reads the encoder's output."""

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:  # type: ignore[override]
        raise NotImplementedError("the library's layer computes this sub-layer")


def _weights(layer: nn.Module, paths: tuple[str, ...], reads_memory: bool) -> Weights:
    modules = {path.replace(".", "_"): layer.get_submodule(path) for path in paths}
    return CrossWeights(modules) if reads_memory else Weights(modules)


def _check(model: Any, residual: str) -> list[tuple[Any, Family]]:
    """The families of a model that can be rewired to the scheme; raises for any other."""
    transformers = require("transformers", "lamina.rewire", "transformers")
    if isinstance(model, type):
        raise UserError(f"rewire: {model.__name__} is a class; build the model first: {model.__name__}(config)")
    if isinstance(model, nn.Module) and any(hasattr(each, "lamina_residual") for each in model.modules()):
        raise UserError("rewire: the model is rewired already; build or load it anew, then rewire it once")
    families = find_families(model) if isinstance(model, transformers.PreTrainedModel) else []
    if not families:
        able = ", ".join(name.removesuffix("Config") for name in CONFIGS)
        raise UserError(f"rewire: {type(model).__name__} is none of the models that can be rewired: {able}")
    scheme = schemes.find(residual)
    if scheme.grows:
        raise UserError(
            f"rewire: the state of {scheme.name} gains a tensor per layer, and a layer of another library passes on "
            "one tensor of constant size; use lamina.Stack with your sub-layers instead"
        )
    for holder, family in families:
        layer = getattr(holder, family.layers)[0]
        if hasattr(layer, "crossattention"):
            raise UserError(f"rewire: {type(layer).__name__} with add_cross_attention=True is not supported")
    return families


def _refuse_slots(stack: Stack) -> None:
    if type(stack.residual).slot is not Residual.slot:
        raise UserError(
            f"rewire: {stack.residual.name} has parameters inside the sub-layers, which only Lamina's own sub-layers "
            "take; build the model with lamina.Transformer instead"
        )


def _norm_of(holder: Any, family: Family) -> dict[str, Any]:
    """The options of the model's own norms."""
    norm = getattr(holder, family.layers)[0].get_submodule(family.sublayers[0].norm)
    eps = getattr(norm, "variance_epsilon", None) or getattr(norm, "eps", None) or 1e-5
    if isinstance(norm, nn.LayerNorm):
        return {"kind": "layer", "eps": eps, "bias": norm.bias is not None}
    return {"kind": "rms", "eps": eps}


class _Norms(NamedTuple):
    sites: list[list[nn.Module]]
    final: nn.Module | None


def _norms(holder: Any, family: Family) -> _Norms:
    """The norms that a model has before it is rewired."""
    sites = [[layer.get_submodule(each.norm) for each in family.sublayers] for layer in getattr(holder, family.layers)]
    return _Norms(sites, None if family.final_norm is None else getattr(holder, family.final_norm))


def _copy_norms(connected: Connected, former: _Norms) -> None:
    """Copy the gains and biases of the model's norms into those that take their places."""
    pairs: list[tuple[Any, nn.Module]] = [
        (site.norm, norm)
        for layer, norms in zip(connected.stack.layers, former.sites, strict=True)
        for site, norm in zip(layer.sites, norms, strict=True)
        if isinstance(getattr(site, "norm", None), nn.Module)
    ]
    at_the_end = [each for each in connected.stack.residual.children() if isinstance(each, nn.LayerNorm | nn.RMSNorm)]
    if former.final is not None and len(at_the_end) == 1:
        pairs.append((at_the_end[0], former.final))
    with torch.no_grad():
        for own, given in pairs:
            for name, parameter in own.named_parameters():
                if getattr(given, name, None) is not None:
                    parameter.copy_(getattr(given, name))


def _is_table(embedding: Any) -> bool:
    return isinstance(embedding, nn.Embedding)


def calibrate(model: nn.Module, connected: list[Connected], batch: Mapping[str, Any] | None) -> None:
    """Run the calibration of schemes that have one, all stacks in one pass of the model."""
    needing = [each for each in connected if each.stack.residual.needs_calibration]
    if not needing:
        return
    if batch is None:
        name = needing[0].stack.residual.name
        raise UserError(f"rewire: {name} is calibrated on a batch: give batch={{…}}, the arguments of the model")
    sample = next(each for each in batch.values() if isinstance(each, Tensor))
    mask = batch.get("attention_mask")
    with ExitStack() as contexts:
        contexts.enter_context(profiling(model, sample))
        for each in needing:
            real = None if mask is None or each.part_of == "decoder" else mask.bool()
            observe = contexts.enter_context(each.stack.residual.calibration(each.stack.entries, real))
            for wiring in each.wirings:
                wiring.observe = observe
        try:
            model(**batch)
        finally:
            for each in needing:
                for wiring in each.wirings:
                    wiring.observe = None
