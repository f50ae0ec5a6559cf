"""The numbers of every step: gradient norms before clipping, losses, and values read every few steps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lamina.diagnosis.watching.non_finite import lowest_parameters
from lamina.diagnosis.watching.steps import StepRecorder, StepValues


class Blocks(nn.Module):
    """Three residual layers on word vectors; returns a dictionary with the loss, as models of transformers do."""

    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(11, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.unused = nn.Linear(2, 2)
        self.reentrant = reentrant

    def forward(self, ids: Tensor, num_items_in_batch: int | None = None) -> dict[str, Tensor]:
        x = self.embedding(ids)
        for layer in self.layers:
            x = x + (checkpoint(layer, x, use_reentrant=True) if self.reentrant else layer(x)).tanh()
        return {"loss": x.square().sum() / (num_items_in_batch or ids.numel()), "logits": x}


IDS = torch.arange(10).reshape(2, 5)


def record(
    model: Blocks,
    *,
    steps: int = 1,
    read_every: int | None = None,
    before: Callable[[StepRecorder], None] = lambda recorder: None,
    options: Any = None,
    scale: float = 1.0,
) -> tuple[list[StepValues], StepRecorder]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    lowest = lowest_parameters(model, {"layers": [[each] for each in model.layers]})
    recorder, found = StepRecorder(model, optimiser, lowest, read_every), []
    for step in range(1, steps + 1):
        (model(IDS, **(options or {}))["loss"] * scale).backward()
        before(recorder)
        found += recorder.before_step(step)
        optimiser.step()
        optimiser.zero_grad()
    recorder.close()
    return found, recorder


@pytest.mark.parametrize("reentrant", [False, True])
def test_norms_are_those_before_clipping_and_the_loss_is_the_outputs(reentrant: bool) -> None:
    model, expected = Blocks(reentrant), {}

    def clip(recorder: StepRecorder) -> None:
        expected.update({path: each.grad for path, each in model.named_parameters() if each.grad is not None})
        expected.update({path: float(each.norm()) for path, each in expected.items()})
        if not reentrant:  # there the backward pass has parts, and norms are taken at the step
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    (values,), recorder = record(model, before=clip)
    measured = dict(zip(recorder.paths, values.norms, strict=True))
    assert measured == pytest.approx({**expected, "unused.weight": 0.0, "unused.bias": 0.0}, rel=1e-5)
    assert values.gradient_norm == pytest.approx(sum(each**2 for each in expected.values()) ** 0.5, rel=1e-5)
    assert values.loss == pytest.approx(Blocks()(IDS)["loss"].item(), rel=1e-6)
    assert values.learning_rate == 0.1
    assert values.is_finite


def test_what_the_loop_records_replaces_what_is_seen() -> None:
    def tell(recorder: StepRecorder) -> None:
        recorder.record(torch.tensor(7.0), gradient_norm=3.0, batch=[4, 5])

    (values,), _ = record(Blocks(), before=tell)
    assert (values.loss, values.gradient_norm) == (7.0, 3.0)
    batch = values.batch()
    assert batch is not None
    assert batch.examples == (4, 5)


def test_a_batch_is_known_by_its_hash() -> None:
    (values,), _ = record(Blocks())
    batch = values.batch()
    assert batch is not None
    assert batch.sha256 == hashlib.sha256(IDS.numpy().tobytes()).hexdigest()


def test_steps_are_read_together_and_keep_their_own_numbers() -> None:
    at_once, _ = record(Blocks(), steps=6)
    together, recorder = record(Blocks(), steps=6, read_every=4)
    assert [each.step for each in together] == [1, 2, 3, 4]
    together += recorder.read()
    assert [each.step for each in together] == [1, 2, 3, 4, 5, 6]
    for one, other in zip(at_once, together, strict=True):
        assert (one.loss, one.gradient_norm) == (other.loss, other.gradient_norm)
    assert at_once[0].loss != at_once[-1].loss


def test_the_loss_scale_of_a_gradient_scaler_is_taken_out() -> None:
    (plain,), _ = record(Blocks())

    def unscale(recorder: StepRecorder) -> None:
        for each in recorder.parameters:
            if each.grad is not None:
                each.grad /= 2.0**16

    (scaled,), _ = record(Blocks(), before=unscale, scale=2.0**16)
    assert scaled.gradient_norm == pytest.approx(plain.gradient_norm, rel=1e-5)


def test_losses_of_accumulated_passes() -> None:
    """Shares of one loss are added, other losses are averaged."""

    def again(model: Blocks, **options: int) -> Callable[[StepRecorder], None]:
        return lambda recorder: model(IDS, **options)["loss"].backward()

    one = Blocks()(IDS)["loss"].item()
    model = Blocks()
    (values,), _ = record(model, before=again(model))
    assert values.loss == pytest.approx(one, rel=1e-6)
    model = Blocks()
    (values,), _ = record(model, before=again(model, num_items_in_batch=20), options={"num_items_in_batch": 20})
    assert values.loss == pytest.approx(one, rel=1e-6)


def test_gradients_that_are_not_finite() -> None:
    model = Blocks()
    model.layers[1].weight.register_hook(lambda gradient: gradient * float("nan"))
    (values,), _ = record(model)
    assert not values.is_finite
