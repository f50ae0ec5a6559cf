"""Batches decoded side by side: the same outputs in the same order, one thread each, and nothing left changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode

from lamina.generate.workers import count_workers, divide, side_by_side
from support.ending_models import language_model, outputs, tokens, translator


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
@pytest.mark.parametrize("method", ["beam", "greedy", "sample"])
@pytest.mark.parametrize("kind", [translator, language_model])
@pytest.mark.parametrize("max_tokens", [60, 10_000])
def test_outputs_are_those_of_one_batch_after_the_other(kind: type, method: str, max_tokens: int) -> None:
    model = kind().eval()
    assert count_workers(model) == 2
    together = outputs(model, method=method, max_tokens=max_tokens)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert count_workers(model) == 1
    assert tokens(together) == tokens(outputs(model, method=method, max_tokens=max_tokens))


@pytest.mark.usefixtures("_two_threads")
def test_two_batches_are_computed_at_a_time_on_one_thread_each() -> None:
    both = threading.Barrier(2, timeout=30)

    def work(number: int) -> tuple[int, int]:
        both.wait()  # fails if the other batch is not being computed
        return number, torch.get_num_threads()

    assert list(side_by_side(work, range(6), 2)) == [(number, 1) for number in range(6)]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("_two_threads")
def test_an_error_is_raised_and_later_batches_are_left_out() -> None:
    seen = []

    def work(number: int) -> int:
        seen.append(number)
        if number == 1:
            raise ValueError("wrong")
        return number

    with pytest.raises(ValueError, match="wrong"):
        list(side_by_side(work, range(1000), 2))
    assert len(seen) < 1000
    assert torch.get_num_threads() == 2


def test_a_single_batch_is_dealt_out() -> None:
    assert divide([[5, 4, 3]], 2) == [[5, 3], [4]]
    assert divide([[5]], 2) == [[5]]
    assert divide([[5, 4], [3]], 2) == [[5, 4], [3]]
    assert divide([], 2) == []


@pytest.mark.usefixtures("_two_threads")
def test_one_worker_where_the_state_of_the_thread_matters() -> None:
    model = translator().eval()
    with torch.autocast("cpu", torch.bfloat16):
        assert count_workers(model) == 1
    with BaseTorchFunctionMode():
        assert count_workers(model) == 1
    assert count_workers(model.to("meta")) == 1
    assert count_workers(translator().train()) == 1
