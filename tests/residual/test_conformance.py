"""Properties that every scheme must have. New schemes are found and tested automatically."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import lamina
from lamina import residual
from lamina.model.stack import Stack
from support.small_models import SMALL, SOURCE, TARGET, Mixer, by_reference, ready, small_model, small_stack

every_scheme = pytest.mark.parametrize("name", residual.names())


def parts_of(state: Any) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


@every_scheme
@pytest.mark.parametrize("part_of", ["single", "encoder", "decoder"])
@pytest.mark.parametrize("num_layers", [1, 2, 6])
@pytest.mark.usefixtures("float64")
def test_equals_its_equation(name: str, part_of: str, num_layers: int) -> None:
    x = torch.randn(5, 6, requires_grad=True)
    stack = ready(small_stack(name, num_layers, part_of), x.detach())
    ours, equation = stack(x), by_reference(stack, x)
    torch.testing.assert_close(ours, equation, atol=1e-10, rtol=1e-10)

    direction = torch.randn_like(ours)
    leaves = [x, *stack.parameters()]
    gradients = [torch.autograd.grad(y, leaves, direction, allow_unused=True) for y in (ours, equation)]
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-9)


@every_scheme
@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.usefixtures("float64")
def test_equals_its_equation_with_one_sublayer_a_layer_and_either_norm(name: str, norm: Any) -> None:
    x = torch.randn(4, 6)
    stack = ready(small_stack(name, 3, per_layer=1, norm=norm), x)
    torch.testing.assert_close(stack(x), by_reference(stack, x), atol=1e-10, rtol=1e-10)


OPTIONS = [
    ("post-ln", {"input_scale": True, "eps_factor": 100.0}),
    ("b2t", {"scale_init": True}),
    ("b2t-no-norm", {"final_norm": True}),
    ("resi-dual", {"dual_scale": 0.3}),
    ("resi-dual", {"dual_precision": "stream"}),
    ("admin", {"omega": "paper"}),
    ("admin", {"omega": "closed-form"}),
    ("admin", {"omega_form": "fixed"}),
    ("mix-ln", {"switch_layer": 2}),
    ("layer-scale", {"start": 0.5}),
    ("hyper-connections", {"num_streams": 3}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
@pytest.mark.usefixtures("float64")
def test_equals_its_equation_with_every_option(name: str, options: dict[str, Any]) -> None:
    x = torch.randn(5, 6)
    stack = ready(small_stack(name, 3, **options), x)
    torch.testing.assert_close(stack(x), by_reference(stack, x), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", ["ln-scaling", "siamese"])
def test_constants_keep_full_precision_in_a_half_precision_module(name: str) -> None:
    exact = [site.factor.clone() for layer in small_stack(name, 5).layers for site in layer.sites]
    stack = small_stack(name, 5).to(torch.bfloat16)
    kept = [site.factor for layer in stack.layers for site in layer.sites]
    assert all(torch.equal(one, other) for one, other in zip(kept, exact, strict=True))
    x = torch.randn(64, 6).to(torch.bfloat16)
    assert stack(x).dtype == torch.bfloat16
    site = stack.layers[2].sites[0]
    if name == "ln-scaling":
        expected = site.norm(x) / 3**0.5  # a Python number is multiplied in full precision
        assert torch.equal(site.read(x), (site.norm(x).float() * 3**-0.5).to(torch.bfloat16))
        torch.testing.assert_close(site.read(x), expected, atol=0, rtol=2**-7)
    else:
        branch = torch.randn_like(x)
        total = (x.float() + branch.float() * 6**-0.5).to(torch.bfloat16)
        assert torch.equal(site.write((x, x), branch)[0], site.next_norm(total))


class Silent(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@every_scheme
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_round_the_stream(name: str, dtype: torch.dtype) -> None:
    """Branches are computed in low precision, but the stream that they are added to is not; shown by zero branches."""
    x = 1000 * torch.randn(5, 6)
    layers = [[Silent(), Silent()] for _ in range(4)]
    stack = Stack(layers, model_dim=6, residual=name, **({"omega": "closed-form"} if name == "admin" else {}))
    with torch.autocast("cpu", dtype):
        low = stack(x)
    assert torch.equal(low, stack(x))


@every_scheme
@pytest.mark.usefixtures("float64")
def test_gradcheck(name: str) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    stack = ready(small_stack(name, 2, dim=4), x.detach())
    names = [key for key, _ in stack.named_parameters()]

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(stack, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, (x, *stack.parameters()), fast_mode=True)


@every_scheme
@pytest.mark.usefixtures("float64")
def test_never_mixes_positions_and_takes_any_leading_shape(name: str) -> None:
    x = torch.randn(2, 3, 6)
    layers = [[torch.nn.Linear(6, 6) for _ in range(2)] for _ in range(3)]
    stack = ready(Stack(layers, model_dim=6, residual=name, init=None), x)
    together = stack(x)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(together[i, j], stack(x[i, j]), atol=1e-12, rtol=1e-12)


@every_scheme
def test_reading_changes_no_stream_and_streams_are_named(name: str) -> None:
    x = torch.randn(4, 6)
    stack = ready(small_stack(name, 3), x)
    scheme = stack.residual
    state = scheme.open(x)
    for layer in stack.layers:
        for site, sublayer in zip(layer.sites, layer.sublayers, strict=True):
            before = copy.deepcopy([part.detach() for part in parts_of(state)])
            branch = sublayer(site.read(state))
            for part, kept in zip(parts_of(state), before, strict=True):
                assert torch.equal(part, kept)
            state = site.write(state, branch)
        if not scheme.grows:
            assert len(parts_of(state)) == len(scheme.streams)
    assert scheme.close(state).shape == x.shape


@every_scheme
def test_parameters_can_be_sharded_and_are_saved_once(name: str) -> None:
    stack = small_stack(name, 3)
    assert all(parameter.dim() >= 1 for parameter in stack.parameters())
    addresses = [value.data_ptr() for value in stack.state_dict().values()]
    assert len(addresses) == len(set(addresses))


@every_scheme
@pytest.mark.parametrize("num_layers", [1, 64])
def test_finite_when_shallow_and_deep(name: str, num_layers: int) -> None:
    model = small_model(name, num_layers, model_dim=64)
    loss = model(SOURCE, TARGET).logsumexp(-1).sum()
    loss.backward()
    assert loss.isfinite()
    for key, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), key


@every_scheme
@pytest.mark.parametrize("num_layers", [1, pytest.param(64, marks=pytest.mark.slow)])
def test_runs_on_the_meta_device(name: str, num_layers: int) -> None:
    """An operation on tensors of different devices would raise an error."""
    with torch.device("meta"):
        stack = small_stack(name, num_layers)
        x = torch.empty(5, 6)
    stack.calibrate(x)
    y = stack(x)
    y.sum().backward()
    assert y.is_meta
    assert y.shape == x.shape


@every_scheme
def test_checkpointed_gradients_are_bit_identical_with_dropout(name: str) -> None:
    model = small_model(name, 3, dropout=0.2, attention_dropout=0.1, activation_dropout=0.1)
    calls: list[object] = []
    model.encoder.layers[0].sublayers[0].register_forward_hook(lambda *given: calls.append(None))
    gradients = []
    for checkpointed in (False, True):
        for stack in model.stacks():
            stack.checkpoint_layers = checkpointed
        model.zero_grad()
        torch.manual_seed(7)
        calls.clear()
        model(SOURCE, TARGET).square().mean().backward()
        assert len(calls) == (2 if checkpointed else 1), "a checkpointed layer is computed again on the way back"
        gradients.append({key: value.grad.clone() for key, value in model.named_parameters() if value.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for key, value in gradients[0].items():
        assert torch.equal(value, gradients[1][key]), key


@every_scheme
def test_packed_padded_and_token_by_token_agree(name: str) -> None:
    model = small_model(name, 3).eval()
    source_lengths, target_lengths = (SOURCE != 0).sum(1), (TARGET != 0).sum(1)
    padded = model(SOURCE, TARGET)
    packed = model(
        SOURCE[SOURCE != 0], TARGET[TARGET != 0], source_lengths=source_lengths, target_lengths=target_lengths
    )
    torch.testing.assert_close(padded[TARGET != 0], packed, atol=1e-5, rtol=1e-5)
    assert not padded[TARGET == 0].any()

    memory, memory_sequences = model.encode(SOURCE)
    cache = model.new_cache(num_rows=3, capacity=4)
    for at in range(int(target_lengths.min())):
        step = model.step(TARGET[:, at], [1, 1, 1], memory, memory_sequences, cache)
        torch.testing.assert_close(step, padded[:, at], atol=1e-5, rtol=1e-5)


@every_scheme
def test_prompts_of_different_lengths_go_on_token_by_token(name: str) -> None:
    """Rows that start with different numbers of tokens, then continue one by one, in both kinds of causal model."""
    rows = [[1, 21, 22, 23, 24], [1, 25, 26], [1, 27, 28, 29]]
    prompts = [3, 1, 2]
    model = small_model(name, 2).eval()
    memory, memory_sequences = model.encode(SOURCE)
    expected = [model(SOURCE[at : at + 1], torch.tensor([row]))[0] for at, row in enumerate(rows)]
    cache = model.new_cache(num_rows=3, capacity=5)
    first = torch.tensor([token for row, count in zip(rows, prompts, strict=True) for token in row[:count]])
    scores = model.step(first, prompts, memory, memory_sequences, cache).split(prompts)
    for row, count, score in zip(expected, prompts, scores, strict=True):
        torch.testing.assert_close(score, row[:count], atol=1e-5, rtol=1e-5)
    for at in range(2):
        tokens = torch.tensor([row[count + at] for row, count in zip(rows, prompts, strict=True)])
        scores = model.step(tokens, [1, 1, 1], memory, memory_sequences, cache)
        wanted = torch.stack([row[count + at] for row, count in zip(expected, prompts, strict=True)])
        torch.testing.assert_close(scores, wanted, atol=1e-5, rtol=1e-5)


@every_scheme
def test_a_language_model_decodes_token_by_token(name: str) -> None:
    model = lamina.Transformer.from_preset("iwslt", kind="decoder", residual=name, num_layers=2, **SMALL).eval()
    model.calibrate(SOURCE)
    whole, cache = model(SOURCE[:, :3]), model.new_cache(3, capacity=3)
    for at in range(3):
        step = model.step(SOURCE[:, at], [1, 1, 1], cache)
        torch.testing.assert_close(step, whole[:, at], atol=1e-5, rtol=1e-5)


@every_scheme
def test_outputs_do_not_depend_on_other_sequences_of_the_batch(name: str) -> None:
    model = small_model(name, 2).eval()
    together = model(SOURCE, TARGET)
    for row, length in enumerate((TARGET != 0).sum(1).tolist()):
        alone = model(SOURCE[row : row + 1], TARGET[row : row + 1, :length])
        torch.testing.assert_close(alone[0], together[row, :length], atol=1e-5, rtol=1e-5)


def compiled_equals_eager(name: str, backend: str, num_layers: int) -> int:
    """Compile layer by layer; return the number of graphs for a stack of equal layers."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    x = torch.randn(8, 16)
    layers = [[Mixer(16), Mixer(16)] for _ in range(num_layers)]
    stack = ready(Stack(layers, model_dim=16, residual=name, init=None), x)
    expected = stack(x)
    expected.square().sum().backward()
    gradients = {key: value.grad for key, value in stack.named_parameters()}
    stack.zero_grad()
    for layer in stack.layers:
        layer.compile(backend=backend)
    actual = stack(x)
    actual.square().sum().backward()
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-9)
    for key, value in stack.named_parameters():
        torch.testing.assert_close(value.grad, gradients[key], atol=1e-7, rtol=1e-7)
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@every_scheme
@pytest.mark.usefixtures("float64")
def test_compiled_equals_eager_in_few_graphs(name: str) -> None:
    graphs = compiled_equals_eager(name, "aot_eager", num_layers=8)
    assert graphs >= 1
    assert residual.find(name).grows or graphs <= 3


@pytest.mark.slow
@every_scheme
@pytest.mark.usefixtures("float64")
def test_compiled_by_inductor_equals_eager(name: str) -> None:
    compiled_equals_eager(name, "inductor", num_layers=2)
