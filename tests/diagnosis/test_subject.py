"""Subjects of a diagnosis: models and factories, batches and losses, and the messages about unusable ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.subject import RANDOM_DIRECTION, Subject, split, subject_of
from lamina.errors import UserError
from lamina.model.transformer import Transformer

DIM = 16
X = torch.randn(8, 5, DIM, generator=torch.Generator().manual_seed(1))


def encoder(num_layers: int = 2) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(DIM, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def losses(subject: Subject) -> list[float]:
    model = subject.build(1)
    return [record_pass(model, run)[0].loss for run in subject.passes]


# Batches


def test_one_batch_is_cut_along_its_first_dimension() -> None:
    pieces = split({"x": torch.arange(10), "y": (torch.arange(10), "word")}, 4)
    assert [piece["x"].tolist() for piece in pieces] == [[0, 1], [2, 3, 4], [5, 6], [7, 8, 9]]
    assert torch.equal(pieces[1]["y"][0], torch.tensor([2, 3, 4]))
    assert pieces[1]["y"][1] == "word"
    assert len(split(torch.zeros(3, 2), 8)) == 3


class Pair(NamedTuple):
    x: Tensor
    y: Tensor


def test_a_named_tuple_is_cut_into_named_tuples() -> None:
    pieces = split(Pair(torch.arange(4), torch.arange(4)), 2)
    assert [piece.y.tolist() for piece in pieces] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("batch", [torch.zeros(1, 4), (torch.zeros(3), torch.zeros(4)), "no tensor"])
def test_what_cannot_be_cut_stays_whole(batch: Any) -> None:
    assert split(batch, 4) == [batch]


def test_a_length_that_comes_first_is_not_cut() -> None:
    model = nn.Transformer(DIM, 2, 2, 2, 32)  # (length, batch, dim)
    assert len(subject_of(model, (torch.randn(6, 2, DIM), torch.randn(6, 2, DIM))).passes) == 1


def test_tensor_tuple_dictionary_and_list() -> None:
    model = encoder()
    alone = losses(subject_of(model.eval(), X, torch.sum))
    assert len(alone) == 4
    assert losses(subject_of(model, (X,), torch.sum)) == alone
    assert losses(subject_of(model, {"src": X}, torch.sum)) == alone
    assert losses(subject_of(model, [X[:2], {"src": X[2:4]}], torch.sum)) == alone[:2]
    with pytest.raises(UserError, match="list of batches is empty"):
        subject_of(model, [])


# Losses


def test_a_loss_of_the_output_or_of_output_and_batch() -> None:
    model = encoder().eval()
    one = losses(subject_of(model, X, lambda output: output.square().mean(), batches=1))
    two = losses(subject_of(model, X, lambda output, batch: (output - batch).square().mean(), batches=1))
    expected = model(X)
    assert one == [pytest.approx(expected.square().mean().item())]
    assert two == [pytest.approx((expected - X).square().mean().item())]


def test_a_loss_that_is_a_module_of_two() -> None:
    model = encoder().eval()
    assert losses(subject_of(model, X, nn.MSELoss(), batches=1)) == [
        pytest.approx(nn.functional.mse_loss(model(X), X).item())
    ]
    with pytest.raises(UserError, match=r"cannot be called with .*\(Tensor and dict\).*loss=lambda output, batch"):
        losses(subject_of(model, {"src": X}, nn.CrossEntropyLoss()))


class WithLoss(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.body, self.kind = encoder(), kind

    def forward(self, x: Tensor) -> Any:
        loss = self.body(x).square().mean()
        return {"loss": loss} if self.kind is dict else type("Output", (), {"loss": loss})()


@pytest.mark.parametrize("kind", [dict, object])
def test_the_output_s_own_loss(kind: type) -> None:
    subject = subject_of(WithLoss(kind).eval(), X, batches=1)
    assert losses(subject) == [pytest.approx(subject.build(1).body(X).square().mean().item())]
    assert not subject.notes


def test_lamina_s_own_losses_and_padded_batches() -> None:
    model = Transformer.from_preset(
        "iwslt", num_layers=2, model_dim=16, feed_forward_dim=32, num_heads=2, vocab_size=40
    )
    ids = torch.randint(3, 40, (4, 6))
    subject = subject_of(model.eval(), {"source": ids, "target": ids, "labels": ids}, batches=2)
    assert losses(subject)[0] == pytest.approx(model(ids[:2], ids[:2], labels=ids[:2]).smoothed.mean().item())


def test_without_a_loss_a_random_direction_and_a_note() -> None:
    subject = subject_of(encoder().eval(), X, batches=2)
    again = subject_of(subject.model, X, batches=2)
    assert losses(subject) == losses(again), "the direction is always the same"
    assert set(subject.notes) == {RANDOM_DIRECTION}


class Wordy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = encoder()

    def forward(self, x: Tensor) -> str:
        self.body(x)
        return "nothing to differentiate"


@pytest.mark.parametrize(
    ("model", "loss", "message"),
    [
        (encoder(), lambda output: output, r"single number, but is a tensor of shape \(2, 5, 16\)"),
        (encoder(), lambda output: 3.0, "single number, but is a float"),
        (encoder(), lambda output: output.detach().sum(), "does not depend on any parameter"),
        (Wordy(), None, "returned a str without a loss"),
    ],
)
def test_values_that_are_not_losses(model: nn.Module, loss: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        losses(subject_of(model, X, loss))


# Models


def test_a_batch_on_another_device() -> None:
    with pytest.raises(UserError, match="the model is on cpu, but the batch on meta; move one"):
        losses(subject_of(encoder(), X.to("meta")))


def test_a_model_without_weights() -> None:
    with pytest.raises(UserError, match="meta device"):
        subject_of(encoder().to("meta"), X)


def test_a_frozen_model_in_evaluation_mode() -> None:
    with pytest.raises(UserError, match=r"all 24 parameters .* frozen \(it is in evaluation mode\).*requires_grad_"):
        subject_of(encoder().eval().requires_grad_(False), X)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(bad: float) -> None:
    model = encoder()
    with torch.no_grad():
        model.layers[1].linear1.weight[3, 4] = bad
    with pytest.raises(UserError, match=r"1 of 512 numbers of layers.1.linear1.weight are NaN or infinite"):
        subject_of(model, X)


def test_no_repeated_layers() -> None:
    with pytest.raises(UserError, match="no repeated layers"):
        losses(subject_of(nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU()), X))


def test_values_that_are_neither_a_model_nor_a_factory() -> None:
    with pytest.raises(UserError, match="but this is a int"):
        subject_of(3, X)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the factory returned a str"):
        subject_of(lambda: "a model", X)  # type: ignore[arg-type, return-value]


def test_compiled_and_parallel_models_are_unwrapped() -> None:
    model = encoder().eval()
    plain = losses(subject_of(model, X, torch.sum))
    for wrapped in (torch.compile(model), nn.DataParallel(model)):
        subject = subject_of(wrapped, X, torch.sum)
        assert subject.name == "TransformerEncoder"
        assert losses(subject) == plain


def test_the_warm_up_is_known_to_the_checks_and_never_negative() -> None:
    assert subject_of(encoder(), X, torch.sum, warmup=4000).warmup == 4000
    with pytest.raises(UserError, match="warmup is the number of steps of the warm-up, 0 for none, not -1"):
        subject_of(encoder(), X, torch.sum, warmup=-1)
