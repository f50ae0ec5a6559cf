"""One recorded forward and backward pass, with the gradients of all weight matrices; the model is left as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from lamina.diagnosis.recording import foreign, own
from lamina.diagnosis.recording.calls import CallRecorder
from lamina.diagnosis.recording.layers import ModelLayers, find_layers
from lamina.diagnosis.recording.parameters import explain_gradients
from lamina.diagnosis.recording.ranges import RangeRecorder
from lamina.diagnosis.recording.records import MatrixName, Record
from lamina.errors import UserError

Pass = Callable[[nn.Module], Tensor]
"""Runs a model on one batch and returns the loss."""

LAYER_DROP = "layerdrop"
"""The attribute of a module, or of its config, that is the probability with which a layer is left out."""


def record_pass(model: nn.Module, run: Pass) -> tuple[Record, list[str]]:
    """The record of one pass, and notes about what could not be recorded."""
    layers = find_layers(model)
    with as_written(model) as notes, state_restored(model):
        with recording(model) as found, RangeRecorder(model, layers.layers) as recorder:
            with CallRecorder(model, layers.layers) as called:
                loss = run(model)
            _check_loss(loss)
            torch.autograd.backward(loss)
        gradients = _gradients(layers)
        parameters = explain_gradients(model, layers.layers, recorder.ran, partial(loss_again, model, run))
        non_finite = recorder.first_non_finite(loss)
    if not found.stacks:
        raise UserError(f"nothing of {type(model).__name__} could be recorded: {'; '.join(found.notes)}")
    record = Record(loss.item(), found.stacks, gradients, parameters, recorder.ranges, called.calls, non_finite)
    return record, notes + found.notes


@torch.no_grad()
def loss_again(model: nn.Module, run: Pass) -> Tensor:
    """The loss without gradient, with the same random numbers at every call."""
    with random_state_kept():
        torch.manual_seed(0)
        return run(model)


def backward(model: nn.Module, run: Pass) -> None:
    """Leave the gradients of the loss that `loss_again` computes in the parameters."""
    with random_state_kept(), torch.enable_grad():
        torch.manual_seed(0)
        torch.autograd.backward(run(model))


def gradients_of(model: nn.Module, run: Pass) -> dict[MatrixName, Tensor]:
    """The gradients of all weight matrices, whether or not they are finite."""
    with as_written(model), state_restored(model), torch.enable_grad():
        torch.autograd.backward(run(model))
        return _gradients(find_layers(model))


def recording(model: nn.Module) -> AbstractContextManager[own.StackRecords]:
    """Record Lamina's own stacks exactly, and any other model as far as its structure can be recognised."""
    return own.recording(model) if own.own_stacks(model) else foreign.recording(model)


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Restore the random state of the process afterwards."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices=devices):
        yield


def check_model(model: nn.Module) -> None:
    """Refuse a model that cannot be measured: without weights, with NaN or infinite weights, or frozen."""
    parameters = dict(model.named_parameters())
    kind = type(model).__name__
    if any(parameter.is_meta for parameter in parameters.values()):
        raise UserError(f"{kind} is on the meta device: it has shapes, but no weights; load or draw them first")
    for path, parameter in parameters.items():
        bad = int((~torch.isfinite(parameter.detach())).sum())
        if bad:
            raise UserError(
                f"{kind}: {bad:,} of {parameter.numel():,} numbers of {path} are NaN or infinite, so nothing can be "
                "measured; use earlier weights that are finite, such as an earlier checkpoint"
            )
    if not any(parameter.requires_grad for parameter in parameters.values()):
        mode = "training" if model.training else "evaluation"
        raise UserError(
            f"all {len(parameters)} parameters of {kind} are frozen (it is in {mode} mode), so no gradient can be "
            "measured; call model.requires_grad_() first"
        )


def _check_loss(loss: object) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
        raise UserError(
            f"the loss must be a single number, but is {shape}; take its mean, as in loss=lambda y: …mean()"
        )
    if not loss.requires_grad:
        raise UserError("the loss does not depend on any parameter that is trained; compute it with gradients enabled")


def _gradients(layers: ModelLayers) -> dict[MatrixName, Tensor]:
    return {
        matrix.name: matrix.of(_dense(matrix.parameter.grad))
        for matrix in layers.matrices
        if matrix.parameter.grad is not None
    }


def _dense(gradient: Tensor) -> Tensor:
    return gradient.to_dense() if gradient.is_sparse else gradient


@contextmanager
def as_written(model: nn.Module) -> Iterator[list[str]]:
    """Switch off compilation, in which hooks do not run, and layer-drop, which leaves out layers at random.

    Gives notes about what was switched off.
    """
    owners = [
        *model.modules(),
        *{id(each.config): each.config for each in model.modules() if hasattr(each, "config")}.values(),
    ]
    dropping = [
        each for each in owners if isinstance(getattr(each, LAYER_DROP, None), float) and getattr(each, LAYER_DROP)
    ]
    rates = [getattr(each, LAYER_DROP) for each in dropping]
    compiled = [(each, each._compiled_call_impl) for each in model.modules() if each._compiled_call_impl is not None]
    for each in dropping:
        setattr(each, LAYER_DROP, 0.0)
    for module, _ in compiled:
        module._compiled_call_impl = None
    try:
        yield (
            [f"layer-drop (layerdrop = {max(rates):g}) was switched off, so that all layers are measured"]
            if rates
            else []
        )
    finally:
        for each, rate in zip(dropping, rates, strict=True):
            setattr(each, LAYER_DROP, rate)
        for module, call in compiled:
            module._compiled_call_impl = call


@contextmanager
def state_restored(model: nn.Module) -> Iterator[None]:
    """Restore the gradients that parameters had before, and buffers, such as running means.

    The gradients of the pass are not copied: the record holds the tensors themselves.
    """
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    for parameter in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        with torch.no_grad():
            for module, name, buffer, before in buffers:
                module._buffers[name] = buffer
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
