"""Greedy decoding equals choosing the best word of a whole pass, again and again."""

from __future__ import annotations

import pytest
import torch

from lamina import residual
from lamina.generate.greedy import decode_greedily
from small_models import small_model

SENTENCES = [[3, 4, 5, 6, 7], [8, 9, 10], [11, 12, 13, 14], [15]]


def by_whole_passes(model: torch.nn.Module, source: list[int], limit: int) -> list[int]:
    output: list[int] = []
    while len(output) < limit:
        scores = model(torch.tensor([source]), torch.tensor([[1, *output]]))
        best = int(scores[0, -1].argmax())
        if best == 2:
            break
        output.append(best)
    return output


@pytest.mark.parametrize("name", residual.names())
def test_equals_whole_passes_for_every_scheme(name: str) -> None:
    model = small_model(name, 2).eval()
    with torch.no_grad():  # make the end likely, so that rows end at different times
        model.tables["source"].weight[2] += 0.3 * model.tables["source"].weight[20:].mean(0)
    limits = [9, 4, 7, 12]
    packed, lengths = torch.tensor(sum(SENTENCES, [])), [len(sentence) for sentence in SENTENCES]
    together = decode_greedily(model, packed, lengths, bos=1, eos=2, max_length=limits)
    for sentence, limit, output in zip(SENTENCES, limits, together, strict=True):
        assert output == by_whole_passes(model, sentence, limit)
        assert len(output) <= limit


def test_the_longest_source_may_end_first() -> None:
    """What is left are shorter sentences, whose padding must stay hidden."""
    for seed in range(8):
        torch.manual_seed(seed)
        model = small_model("post-ln", 2).eval()
        for limits in ([1, 6, 6, 6], [2, 5, 1, 7], [1, 1, 8, 3]):
            packed, lengths = torch.tensor(sum(SENTENCES, [])), [len(sentence) for sentence in SENTENCES]
            together = decode_greedily(model, packed, lengths, bos=1, eos=2, max_length=limits)
            for sentence, limit, output in zip(SENTENCES, limits, together, strict=True):
                assert output == by_whole_passes(model, sentence, limit)


def test_leaves_the_mode_of_the_model_as_it_was() -> None:
    model = small_model("pre-ln").train()
    decode_greedily(model, torch.tensor([3, 4]), [2], bos=1, eos=2, max_length=[3])
    assert model.training
