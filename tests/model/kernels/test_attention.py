"""Attention of short sequences: the same values and gradients as torch's kernel gives, and derivatives of any order."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from lamina.model import attention
from lamina.model.attention import CrossAttention, SelfAttention
from lamina.model.kernels.attention import LONGEST, ShortAttention, attend_short, is_short
from lamina.model.kernels.dropout import Dropout
from lamina.model.sequences import Sequences

pytestmark = pytest.mark.usefixtures("float64")
SHORT, LONGER = [4, 1, 3], [20, 17, 2]
LENGTHS = {"short": SHORT, "longer": LONGER, "one length": [18, 18], "equal and short": [3, 3]}


def gradients(module: SelfAttention | CrossAttention, inputs: list[Tensor], *arguments: object) -> list[Tensor]:
    """The output and the gradients of inputs and weights."""
    torch.manual_seed(1)
    output = module(inputs[0], *arguments)
    torch.manual_seed(2)
    return [output, *torch.autograd.grad(output, [*inputs, *module.parameters()], torch.randn_like(output))]


def is_used(output: Tensor) -> bool:
    """Whether one of the functions that computed the output is `ShortAttention`."""
    open_nodes = [output.grad_fn]
    while open_nodes:
        node = open_nodes.pop()
        if node is not None:
            if type(node).__name__ == f"{ShortAttention.__name__}Backward":
                return True
            open_nodes += [next_node for next_node, _ in node.next_functions]
    return False


@pytest.mark.parametrize(("lengths", "causal", "dropout"), [*product(LENGTHS, [False, True], [0.0, 0.5])])
def test_self_attention_is_that_of_torch(
    lengths: str, causal: bool, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, sequences = SelfAttention(8, 2, causal=causal, dropout=dropout), Sequences(LENGTHS[lengths])
    inputs = [torch.randn(sequences.num_tokens, 8, requires_grad=True)]
    short = gradients(module, inputs, sequences)
    assert is_used(short[0])
    monkeypatch.setattr(attention, "is_short", lambda *arguments: False)
    plain = gradients(module, inputs, sequences)
    assert not is_used(plain[0])
    torch.testing.assert_close(short, plain, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(("lengths", "memory_lengths"), [*product(LENGTHS, LENGTHS)])
def test_cross_attention_is_that_of_torch(lengths: str, memory_lengths: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = min(len(LENGTHS[lengths]), len(LENGTHS[memory_lengths]))
    sequences, memory_sequences = Sequences(LENGTHS[lengths][:count]), Sequences(LENGTHS[memory_lengths][:count])
    module = CrossAttention(8, 2)
    inputs = [torch.randn(each.num_tokens, 8, requires_grad=True) for each in (sequences, memory_sequences)]
    short = gradients(module, inputs, sequences, inputs[1], memory_sequences)
    assert is_used(short[0])
    monkeypatch.setattr(attention, "is_short", lambda *arguments: False)
    plain = gradients(module, inputs, sequences, inputs[1], memory_sequences)
    torch.testing.assert_close(short, plain, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(("causal", "dropout"), [(False, 0.0), (True, 0.5)])
def test_derivatives_of_first_and_second_order(causal: bool, dropout: float) -> None:
    sequences = Sequences(SHORT)
    inputs = [torch.randn(sequences.num_tokens, 4, requires_grad=True) for _ in range(3)]

    def attend(*packed: Tensor) -> Tensor:
        torch.manual_seed(1)
        return attend_short(*packed, sequences, sequences, 2, causal, Dropout(dropout))  # type: ignore[call-arg, arg-type]

    assert torch.autograd.gradcheck(attend, inputs)
    assert torch.autograd.gradgradcheck(attend, inputs)


def test_padding_changes_nothing() -> None:
    """The gradients of a sequence are the same alone as beside longer ones, bit for bit where shapes are equal."""
    packed = torch.randn(2, 3, 8).unbind()
    alone = [each.clone().requires_grad_() for each in packed]
    beside = [torch.cat([each, torch.randn(5, 8)]).requires_grad_() for each in packed]
    found = []
    for inputs, lengths in ((alone, [3]), (beside, [3, 5])):
        sequences = Sequences(lengths)
        output = attend_short(inputs[0], inputs[1], inputs[1], sequences, sequences, 2, True, Dropout(0.0))
        found.append([output[:3], *(each[:3] for each in torch.autograd.grad(output[:3].sum(), inputs))])
    torch.testing.assert_close(*found, atol=1e-14, rtol=1e-14)


def test_long_sequences_are_left_to_torch() -> None:
    sequences, long = Sequences([3]), Sequences([LONGEST + 1])
    queries = torch.randn(3, 4, requires_grad=True)
    assert is_short(queries, sequences, sequences)
    assert not is_short(queries, sequences, long)
    assert not is_short(queries, long, sequences)
