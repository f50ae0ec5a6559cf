"""The weight matrices of a model by stack, layer and kind: as sub-layers declare them, else from their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from lamina.diagnosis.recording.records import MatrixName
from lamina.diagnosis.recording.structure import is_cross_attention, is_state_space
from lamina.model.stack import Stack

# The first pattern that matches the path is used. Attention's output comes before `outer`, because names such as c_proj
# and output.dense are used for both, and only the preceding part of the path distinguishes them.
KINDS: tuple[tuple[str, str], ...] = (
    ("query-key-value", r"(c_attn|\w*att\w*\.(\w+\.)*in_proj|qkv|query_key_value|qkv_proj|wqkv)$"),
    ("query", r"(q_proj|query(_proj)?|to_q|q_lin|wq|q)$"),
    ("key", r"(k_proj|key(_proj)?|to_k|k_lin|wk|k)$"),
    ("value", r"(v_proj|value(_proj)?|to_v|v_lin|wv|v)$"),
    ("output", r"(o_proj|out_proj|to_out(\.0)?|out_lin|o|\w*att\w*\.(\w+\.)*(dense|c_proj|proj|wo))$"),
    ("gate", r"(gate_proj|gate|wi_0|w_gate)$"),
    ("inner", r"(fc1|c_fc|up_proj|linear1|lin1|intermediate\.dense|wi(_1)?|fc_in|dense_h_to_4h|w1)$"),
    ("outer", r"(fc2|c_proj|down_proj|linear2|lin2|output\.dense|wo|fc_out|dense_4h_to_h|w2)$"),
)
LORA = re.compile(r"^(?P<base>.*)[._](?P<matrix>lora_[AB])\b.*$")
"""The two matrices of LoRA, as peft names them: `….q_proj.lora_A.default.weight`."""
FUSED = ("query", "key", "value")


@dataclass(frozen=True, eq=False)
class NamedMatrix:
    """A weight matrix: a whole parameter, or one of the three matrices that a fused parameter holds."""

    name: MatrixName
    parameter: nn.Parameter
    part: tuple[int, int] | None = None
    """For a fused parameter, the dimension along which it is split and the number of this matrix."""

    def of(self, whole: Tensor) -> Tensor:
        """This matrix's part of a tensor that has the parameter's shape."""
        return whole if self.part is None else whole.chunk(3, dim=self.part[0])[self.part[1]]


def name_matrices(
    model: nn.Module, layers: Mapping[str, Sequence[Sequence[nn.Module]]], own: Mapping[str, Stack]
) -> list[NamedMatrix]:
    """All weight matrices in the order of the model.

    layers: for every stack the modules of every layer.
    own: those stacks that are Lamina's.
    """
    layer_of = {
        id(parameter): (stack, number)
        for stack, modules in layers.items()
        for number, layer in enumerate(modules)
        for module in layer
        for parameter in module.parameters()
    }
    matrices = [matrix for stack in own.values() for entry in stack.entries for matrix in entry.matrices]
    whole = [matrix for matrix in matrices if matrix.weight.numel() == matrix.parameter.numel()]
    roles = {id(matrix.parameter): matrix.role for matrix in whole}  # of a fused parameter the name tells the kind
    embeddings = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    crossing = {id(weight) for each in _cross_attentions(model, own.values()) for weight in each.parameters()}
    mixing = {id(each) for module in model.modules() if is_state_space(module) for each in module.parameters()}
    module_of = {
        id(weight): path
        for path, module in reversed([*model.named_modules()])  # of a tied weight the first module counts
        if (weight := module._parameters.get("weight")) is not None
    }
    found: list[NamedMatrix] = []
    for path, parameter in model.named_parameters():
        if parameter.dim() >= 2:
            stack, layer = layer_of.get(id(parameter), ("", None))
            mixes = id(parameter) in mixing
            by_name = "embedding" if id(parameter) in embeddings else None if mixes else kind_of(path)
            known = roles.get(id(parameter)) or by_name
            by_shape = _kind_by_shape(parameter) if layer is not None and not mixes else None
            kind = known or by_shape or _end_of(path)
            name = MatrixName(path, stack, layer, kind, id(parameter) in crossing, module_of.get(id(parameter), ""))
            found += _split(NamedMatrix(name, parameter))
    return found


def _split(matrix: NamedMatrix) -> Iterator[NamedMatrix]:
    """The three matrices of a fused parameter; any other matrix as it is."""
    name, parameter = matrix.name, matrix.parameter
    dimension = _fused_dimension(parameter) if name.kind == "query-key-value" else None
    if dimension is None:
        yield matrix
        return
    for number, kind in enumerate(FUSED):
        path = f"{name.path}[{kind}]"
        yield NamedMatrix(
            MatrixName(path, name.stack, name.layer, kind, name.cross_attention), parameter, (dimension, number)
        )


def _cross_attentions(model: nn.Module, own: Iterable[Stack]) -> Iterator[nn.Module]:
    """The modules of cross-attention: in Lamina's stacks found by their place, in others by their names."""
    for stack in own:
        for layer in stack.layers:
            for sublayer, place in zip(layer.sublayers, layer.places, strict=True):
                if place.kind == "cross-attention":
                    yield sublayer
    yield from (module for path, module in model.named_modules() if is_cross_attention(path, module))


def kind_of(path: str) -> str | None:
    """`bert.encoder.layer.0.attention.self.query.weight` → `query`."""
    lora = LORA.match(path)
    if lora is not None:
        base = re.sub(r"\.base_layer$", "", lora["base"])
        return f"{kind_of(base) or _end_of(base)} {lora['matrix']}"
    if path.endswith("in_proj_weight"):
        return "query-key-value"  # of torch's own attention
    stem = _stem(path)
    return next((kind for kind, pattern in KINDS if re.search(rf"(^|[._]){pattern}", stem, re.IGNORECASE)), None)


def _kind_by_shape(parameter: Tensor) -> str | None:
    """A linear map in a layer that widens is taken for `inner`, one that narrows for `outer`."""
    rows, columns = parameter.shape[:2]
    return "inner" if rows > columns else "outer" if rows < columns else None


def _end_of(path: str) -> str:
    return ".".join([part for part in _stem(path).split(".") if not part.isdigit()][-2:])


def _stem(path: str) -> str:
    return re.sub(r"(\.base_layer)?[._]weight$", "", path)


def _fused_dimension(parameter: Tensor) -> int | None:
    """The dimension along which query, key and value are concatenated: linear layers have outputs first."""
    rows, columns = parameter.shape[:2]
    return 0 if rows == 3 * columns else 1 if columns == 3 * rows else None
