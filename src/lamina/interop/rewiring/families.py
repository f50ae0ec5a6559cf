"""The layers of the families of transformers that can be rewired: their sub-layers, norms and weight matrices.

A branch is computed from what the scheme lets the sub-layer read and from the arguments of the layer's own forward:

    x ── dropout(projection(attention(x, mask, cache …))) ──► branch          no norm, no residual sum
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from lamina.model.sublayer import RoleOf
from lamina.residual.base import Residual
from lamina.residual.post_ln import PostLN
from lamina.residual.pre_ln import PreLN

Arguments = dict[str, Any]
"""The arguments of a layer's forward by name, those of its `**kwargs` included."""


@dataclass(frozen=True)
class ForeignSublayer:
    """A sub-layer of a library's layer."""

    norm: str
    """The path of its norm inside the layer."""
    weights: tuple[str, ...]
    """The paths of the modules with its weights."""
    branch: Callable[[Any, Tensor, Arguments], Tensor]
    """The sub-layer's output, from the layer, what it reads and the layer's arguments."""
    reads_memory: bool = False


@dataclass(frozen=True)
class Family:
    """The layers of one kind of stack."""

    layers: str
    """The name of the list of layers in the module that holds them."""
    sublayers: tuple[ForeignSublayer, ...]
    scheme: type[Residual[Any]]
    """The residual scheme that it has."""
    roles: Mapping[str, RoleOf]
    final_norm: str | None = None
    """The name of the norm after the last layer, beside the list of layers."""
    part_of: str = "single"
    returns: Callable[[Tensor, Arguments], Any] = lambda hidden, arguments: hidden
    """What the layer's forward returns."""


def _self_attention(arguments: Arguments) -> Arguments:
    """The arguments without those of cross-attention."""
    return {name: value for name, value in arguments.items() if not name.startswith("encoder_")}


def _gpt2_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    return layer.attn(x, **_self_attention(arguments))[0]


def _llama_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    return layer.self_attn(hidden_states=x, **arguments)[0]


def _bert_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    own = layer.attention
    return own.output.dropout(own.output.dense(own.self(x, **_self_attention(arguments))[0]))


def _bert_feed_forward(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    return layer.output.dropout(layer.output.dense(layer.intermediate(x)))


def _bart_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    attended = layer.self_attn(x, **{name: _self_attention(arguments)[name] for name in _bart_names(arguments)})[0]
    return F.dropout(attended, layer.dropout, layer.training)


def _bart_names(arguments: Arguments) -> list[str]:
    return [name for name in _self_attention(arguments) if name != "use_cache"]


def _bart_cross_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    others = {name: arguments[name] for name in _bart_names(arguments) if name != "attention_mask"}
    memory, mask = arguments["encoder_hidden_states"], arguments.get("encoder_attention_mask")
    attended = layer.encoder_attn(x, key_value_states=memory, attention_mask=mask, **others)[0]
    return F.dropout(attended, layer.dropout, layer.training)


def _bart_feed_forward(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    inner = F.dropout(layer.activation_fn(layer.fc1(x)), layer.activation_dropout, layer.training)
    return F.dropout(layer.fc2(inner), layer.dropout, layer.training)


T5_BIASES = ("position_bias", "encoder_decoder_position_bias")


def _t5_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    own = layer.layer[0]
    others = {name: each for name, each in _self_attention(arguments).items() if name != "attention_mask"}
    attended, bias, *_ = own.SelfAttention(x, mask=arguments.get("attention_mask"), **others)
    arguments["position_bias"] = bias  # computed by the first layer for all of them
    return own.dropout(attended)


def _t5_cross_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    own = layer.layer[1]
    others = {
        name: each for name, each in _self_attention(arguments).items() if name not in ("attention_mask", *T5_BIASES)
    }
    attended, bias, *_ = own.EncDecAttention(
        x,
        mask=arguments.get("encoder_attention_mask"),
        key_value_states=arguments["encoder_hidden_states"],
        position_bias=arguments.get("encoder_decoder_position_bias"),
        **others,
    )
    arguments["encoder_decoder_position_bias"] = bias
    return own.dropout(attended)


def _t5_feed_forward(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    own = layer.layer[-1]
    return own.dropout(own.DenseReluDense(x))


def _t5_returns(hidden: Tensor, arguments: Arguments) -> Any:
    return hidden, *(arguments.get(name) for name in T5_BIASES)


def _vit_attention(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    return layer.dropout(layer.attention(x, **arguments)[0])


def _mlp(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    return layer.mlp(x)


def _vit_mlp(layer: Any, x: Tensor, arguments: Arguments) -> Tensor:
    return layer.dropout(layer.mlp(x))


_PROJECTIONS: dict[str, RoleOf] = {"*.q_proj": "query", "*.k_proj": "key", "*.v_proj": "value"}
_GPT2 = Family(
    layers="h",
    sublayers=(
        ForeignSublayer("ln_1", ("attn",), _gpt2_attention),
        ForeignSublayer("ln_2", ("mlp",), _mlp),
    ),
    scheme=PreLN,
    roles={
        "*.c_attn": ("query", "key", "value"),
        "*.attn.c_proj": "output",
        "*.c_fc": "inner",
        "*.mlp.c_proj": "outer",
    },
    final_norm="ln_f",
)
_LLAMA = Family(
    layers="layers",
    sublayers=(
        ForeignSublayer("input_layernorm", ("self_attn",), _llama_attention),
        ForeignSublayer("post_attention_layernorm", ("mlp",), _mlp),
    ),
    scheme=PreLN,
    roles={
        **_PROJECTIONS,
        "*.o_proj": "output",
        "*.gate_proj": "gate",
        "*.up_proj": "inner",
        "*.down_proj": "outer",
    },
    final_norm="norm",
)
_BERT = Family(
    layers="layer",
    sublayers=(
        ForeignSublayer("attention.output.LayerNorm", ("attention.self", "attention.output.dense"), _bert_attention),
        ForeignSublayer("output.LayerNorm", ("intermediate.dense", "output.dense"), _bert_feed_forward),
    ),
    scheme=PostLN,
    roles={
        "*.query": "query",
        "*.key": "key",
        "*.value": "value",
        "*.attention_output_dense": "output",
        "*.intermediate_dense": "inner",
        "*[0-9].output_dense": "outer",
    },
)
_BART_SUBLAYERS = (
    ForeignSublayer("self_attn_layer_norm", ("self_attn",), _bart_attention),
    ForeignSublayer("encoder_attn_layer_norm", ("encoder_attn",), _bart_cross_attention, reads_memory=True),
    ForeignSublayer("final_layer_norm", ("fc1", "fc2"), _bart_feed_forward),
)
_BART_ROLES = {
    **_PROJECTIONS,
    "*.out_proj": "output",
    "*.fc1": "inner",
    "*.fc2": "outer",
}
_BART_ENCODER = Family("layers", _BART_SUBLAYERS[::2], PostLN, _BART_ROLES, part_of="encoder")
_BART_DECODER = Family("layers", _BART_SUBLAYERS, PostLN, _BART_ROLES, part_of="decoder")
_T5_ROLES: dict[str, RoleOf] = {"*.q": "query", "*.k": "key", "*.v": "value", "*.o": "output", "*.wo": "outer"}
_T5_SUBLAYERS = (
    ForeignSublayer("layer.0.layer_norm", ("layer.0.SelfAttention",), _t5_attention),
    ForeignSublayer("layer.1.layer_norm", ("layer.1.EncDecAttention",), _t5_cross_attention, reads_memory=True),
    ForeignSublayer("layer.{last}.layer_norm", ("layer.{last}.DenseReluDense",), _t5_feed_forward),
)
_VIT = Family(
    layers="layers",
    sublayers=(
        ForeignSublayer("layernorm_before", ("attention",), _vit_attention),
        ForeignSublayer("layernorm_after", ("mlp",), _vit_mlp),
    ),
    scheme=PreLN,
    roles={
        **_PROJECTIONS,
        "*.o_proj": "output",
        "*.fc1": "inner",
        "*.fc2": "outer",
    },
    final_norm="layernorm",
)
_BY_HOLDER: dict[str, Family] = {
    "GPT2Model": _GPT2,
    "LlamaModel": _LLAMA,
    "Qwen2Model": _LLAMA,
    "Qwen3Model": _LLAMA,
    "BertEncoder": _BERT,
    "RobertaEncoder": _BERT,
    "BartEncoder": _BART_ENCODER,
    "BartDecoder": _BART_DECODER,
    "MarianEncoder": _BART_ENCODER,
    "MarianDecoder": _BART_DECODER,
    "ViTModel": _VIT,
}
"""The family by the class that holds the list of layers; T5's is made for its own shape."""
CONFIGS: tuple[str, ...] = (
    "BertConfig",
    "RobertaConfig",
    "GPT2Config",
    "LlamaConfig",
    "Qwen2Config",
    "Qwen3Config",
    "BartConfig",
    "MarianConfig",
    "T5Config",
    "ViTConfig",
)
"""The configs of the models that can be rewired."""


def find_families(model: nn.Module) -> list[tuple[nn.Module, Family]]:
    """The modules of a model that hold a list of layers, each with its family."""
    found = []
    for module in model.modules():
        name = type(module).__name__
        if name in _BY_HOLDER:
            found.append((module, _BY_HOLDER[name]))
        elif name == "T5Stack":
            found.append((module, _t5(module)))
    return found


def _t5(stack: Any) -> Family:
    """T5's family: its decoder has a sub-layer more, and its feed-forward block one or two inner matrices."""
    crossed, gated = bool(stack.is_decoder), hasattr(stack.block[0].layer[-1].DenseReluDense, "wi_0")
    chosen = _T5_SUBLAYERS if crossed else _T5_SUBLAYERS[::2]
    last = str(len(chosen) - 1)
    sublayers = tuple(
        ForeignSublayer(
            each.norm.format(last=last),
            tuple(path.format(last=last) for path in each.weights),
            each.branch,
            each.reads_memory,
        )
        for each in chosen
    )
    inner: dict[str, RoleOf] = {"*.wi_0": "gate", "*.wi_1": "inner"} if gated else {"*.wi": "inner"}
    roles = _T5_ROLES | inner | {"*.relative_attention_bias": "other"}
    part_of = "decoder" if crossed else "encoder"
    return Family("block", sublayers, PreLN, roles, "final_layer_norm", part_of, _t5_returns)
