"""The measure `stream-mixing`."""

from __future__ import annotations

import pytest
import torch

from lamina.diagnosis.measures.base import NotMeasurable
from lamina.diagnosis.measures.stream_mixing import LARGEST_GAIN, StreamMixing
from support.recorded import fact, feed_forward_stack, line, mean_of, recorded, some_loss, take


@pytest.mark.parametrize("scheme", ["hyper-connections", "resi-dual"])
def test_the_gain_of_all_streams_by_a_plain_loop(float64: None, scheme: str) -> None:
    torch.manual_seed(0)
    stack = feed_forward_stack(scheme, 3, 8)
    if scheme == "hyper-connections":
        with torch.no_grad():
            for layer in stack.layers:
                layer.sites[0].mix_weights.mul_(3.0)
    record = recorded(stack, lambda model: some_loss(model(torch.ones(1, 4, 8) + torch.randn(1, 4, 8))))
    (found,) = mean_of([[take(StreamMixing, record)]])
    states = [record.stacks[0].sublayers[0].before, *(each.after for each in record.stacks[0].sublayers)]
    sizes = [sum(number**2 for each in state for number in each.value.flatten().tolist()) ** 0.5 for state in states]
    assert line(found, quantity="forward") == pytest.approx([each / sizes[0] for each in sizes])
    gradients = [sum((each.gradient_norm or 0.0) ** 2 for each in state) ** 0.5 for state in states]
    assert line(found, quantity="backward") == pytest.approx([each / gradients[-1] for each in gradients])
    if scheme == "hyper-connections":
        assert fact(found, LARGEST_GAIN, quantity="forward") > 20, "3³ = 27"


def test_a_single_stream(float64: None) -> None:
    record = recorded(feed_forward_stack("pre-ln", 2, 8), lambda model: some_loss(model(torch.randn(1, 4, 8))))
    with pytest.raises(NotMeasurable, match="one residual stream"):
        take(StreamMixing, record)
