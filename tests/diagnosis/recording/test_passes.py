"""A recorded pass: the gradients of all matrices, and a model that is left as it was."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.recording.passes import as_written, check_model, random_state_kept, record_pass
from lamina.diagnosis.recording.records import Record
from lamina.errors import UserError
from support.faulty_models import IDS, WordModel
from support.small_models import LABELS, SOURCE, TARGET, small_model, small_stack


def loss_of(model: nn.Module) -> Tensor:
    return model(SOURCE, TARGET, labels=LABELS).smoothed.mean()


def record(model: nn.Module) -> Record:
    return record_pass(model, loss_of)[0]


def test_every_matrix_has_its_gradient() -> None:
    model = small_model("post-ln", num_layers=(1, 2))
    found = record(model).gradients
    assert [name.kind for name in found][:2] == ["embedding", "query"]
    for name, gradient in found.items():
        assert gradient.shape == model.get_parameter(name.path).shape
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_users_gradients_are_put_back() -> None:
    model = small_model("pre-ln")
    loss_of(model).backward()
    before = {parameter: parameter.grad for parameter in model.parameters()}
    record(model)
    assert all(parameter.grad is gradient for parameter, gradient in before.items())


def test_buffers_are_put_back() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stack, self.mean = small_stack("pre-ln", 2), nn.BatchNorm1d(6)

        def forward(self, x: Tensor) -> Tensor:
            return self.stack(self.mean(x))

    model = Counting()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    record_pass(model, lambda model: model(1 + torch.randn(4, 6)).square().sum())
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name


def test_the_random_state_is_kept() -> None:
    torch.manual_seed(4)
    expected = torch.rand(2)
    torch.manual_seed(4)
    with random_state_kept():
        torch.manual_seed(9)
        torch.rand(5)
    assert torch.equal(torch.rand(2), expected)


def test_stacks_inside_a_foreign_model_are_found_by_path() -> None:
    class Theirs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.ModuleDict({"deep": small_stack("sandwich-ln", num_layers=2)})
            self.top = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.top(self.body["deep"](x))

    model = Theirs()
    found, notes = record_pass(model, lambda model: model(torch.randn(4, 6)).sum())
    assert [stack.name for stack in found.stacks] == ["body.deep"]
    assert not notes
    assert [name.stack for name in found.gradients] == ["body.deep"] * 8 + [""]


def test_layer_drop_and_compilation_are_switched_off_for_the_pass() -> None:
    model, rates = WordModel(), []
    model.layerdrop, model.layers[0].layerdrop = 0.2, 0.0
    model._compiled_call_impl = lambda *arguments, **options: pytest.fail("the compiled model was called")
    model.register_forward_pre_hook(lambda module, arguments: rates.append(module.layerdrop))
    with as_written(model) as notes:
        model(IDS)
    assert rates == [0.0]
    assert model.layerdrop == 0.2
    assert model._compiled_call_impl is not None
    assert "layer-drop (layerdrop = 0.2) was switched off" in notes[0]


def test_losses_that_cannot_be_used() -> None:
    stack, x = small_stack("pre-ln", 2), torch.randn(4, 6)
    with pytest.raises(UserError, match=r"a single number, but is a tensor of shape \(4, 6\)"):
        record_pass(stack, lambda stack: stack(x))
    with pytest.raises(UserError, match="does not depend on any parameter"):
        record_pass(stack, lambda stack: stack(x).sum().detach())


def test_a_loss_that_is_not_finite_is_recorded_with_the_place_where_it_arises() -> None:
    stack, x = small_stack("pre-ln", 2), torch.randn(4, 6)
    record, _ = record_pass(stack, lambda stack: stack(x).sum() * float("inf"))
    assert record.non_finite is not None
    assert record.non_finite.kind == "loss"


def test_models_that_cannot_be_measured() -> None:
    stack = small_stack("pre-ln", 2)
    check_model(stack)
    with pytest.raises(UserError, match="parameters of Stack are frozen"):
        check_model(stack.requires_grad_(False))
    with torch.no_grad():
        next(stack.parameters()).view(-1)[0] = float("nan")
    with pytest.raises(UserError, match="1 of .* are NaN or infinite"):
        check_model(stack)
    with pytest.raises(UserError, match="meta device"):
        check_model(nn.Linear(3, 3, device="meta"))
