"""Int8 weights for decoding on a CPU: torch's dynamic quantisation of linear layers and of the output table.

Weights are quantised when the model is converted, with one scale per row; activations when they are computed. Sums are
in full precision. The projections of an adaptive table are not quantised: they are used in both directions, which
torch's int8 layers do not support.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from lamina.errors import UserError
from lamina.model.embedding import FrequencyBand
from lamina.model.heads import WordHead
from lamina.model.transformer import Transformer

AnyTransformer = TypeVar("AnyTransformer", bound=Transformer)


def quantise(model: AnyTransformer) -> AnyTransformer:
    """A copy of the model with int8 weights, for decoding only."""
    small = copy.deepcopy(model).cpu().eval()
    if type(small.head) is WordHead:
        small.head = Int8WordHead(small.output_table.weight.detach(), small.head.bias)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deprecated")  # torch will move this to another package
            kinds: dict[Any, Any] = {nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig}
            kinds |= {
                f"{name}.projection": None for name, each in small.named_modules() if isinstance(each, FrequencyBand)
            }
            return torch.ao.quantization.quantize_dynamic(small, kinds, inplace=True)  # type: ignore[no-untyped-call]
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        raise UserError(
            f"this build of torch has no int8 linear layers for this processor ({error}); decode without int8, or "
            "export the model to CTranslate2, which brings its own"
        ) from None


class Int8WordHead(WordHead):
    """The output table as a linear layer, which torch can quantise."""

    def __init__(self, table: Tensor, bias: nn.Parameter | None) -> None:
        super().__init__()
        num_words, dim = table.shape
        self.scores = nn.Linear(dim, num_words, bias=bias is not None)
        self.scores.weight = nn.Parameter(table, requires_grad=False)
        if bias is not None:
            self.scores.bias = bias

    def forward(self, hidden: Tensor, table: nn.Embedding) -> Tensor:
        return self.scores(hidden)
