"""The stack around foreign sub-layers."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina import Stack, UserError, residual
from lamina.model.feed_forward import FeedForward
from support.small_models import SOURCE, TARGET, ready, small_model, small_stack


class MeanOverPositions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(0)


class Pair(nn.Module):
    def __init__(self, *others: object, first: bool = True) -> None:
        super().__init__()
        self.others, self.first = others, first

    def forward(self, x: Tensor) -> tuple[object, ...]:
        return (x, *self.others) if self.first else self.others


def test_a_tuple_contributes_its_first_element() -> None:
    x = torch.randn(3, 4)
    stack = Stack([[Pair(None)]], model_dim=4, residual="t-fixup")
    assert torch.equal(stack(x), 2 * x)


def test_torch_attention_contributes_its_output() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    stack = Stack([[attention]], model_dim=4, residual="re-zero-post-ln")
    assert stack.layers[0].places[0].kind == "cross-attention"
    x, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    with torch.no_grad():
        stack.layers[0].sites[0].gate.fill_(1.0)
    expected = nn.functional.layer_norm(x + attention(x, memory, memory)[0], (4,))
    torch.testing.assert_close(stack(x, key=memory, value=memory), expected)


@pytest.mark.parametrize("returned", [Pair(None, first=False), Pair(first=False)])
def test_a_tuple_without_a_tensor_is_an_error_that_names_the_sublayer(returned: nn.Module) -> None:
    stack = Stack([[nn.Linear(4, 4), nn.Linear(4, 4)], [nn.Linear(4, 4), returned]], model_dim=4)
    with pytest.raises(UserError, match=r"sub-layer 3 \(Pair of layer 1\) returned a (NoneType|tuple), not a tensor"):
        stack(torch.randn(3, 4))


@pytest.mark.parametrize("wrong", [nn.Linear(6, 1), nn.Linear(6, 5), nn.Flatten(0), MeanOverPositions()])
def test_a_branch_of_another_shape_is_an_error_that_names_the_sublayer(wrong: nn.Module) -> None:
    stack = Stack([[nn.Linear(6, 6), wrong]], model_dim=6)
    with pytest.raises(UserError, match=r"sub-layer 1 .* a branch must keep the shape"):
        stack(torch.randn(3, 6))


def test_foreign_names_do_not_clash_with_ours() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slot = nn.Linear(4, 4)

        def matrices(self, size: int) -> int:
            return size

        def forward(self, x: Tensor, observe: float, state: float, debug: float) -> Tensor:
            return self.slot(x) * observe * state * debug

    stack = Stack([[Named()]], model_dim=4, residual="fixup", checkpoint_layers=True, init=None)
    assert isinstance(stack.layers[0].sublayers[0].slot, nn.Linear)
    stack(torch.randn(3, 4), observe=1.0, state=2.0, debug=3.0).sum().backward()


def test_recomputed_layers_drop_the_same_elements() -> None:
    gradients = []
    for recompute in (False, True):
        torch.manual_seed(1)
        layers = [[FeedForward(8, 8, dropout=0.2), FeedForward(8, 8)] for _ in range(3)]
        stack = Stack(layers, model_dim=8, dropout=0.3, checkpoint_layers=recompute)
        stack(torch.randn(6, 8)).square().sum().backward()
        gradients.append(torch.cat([each.grad.flatten() for each in stack.parameters() if each.grad is not None]))
    assert torch.equal(*gradients)


def test_layers_in_evaluation_mode_drop_nothing() -> None:
    stack = Stack([[FeedForward(8, 8)] for _ in range(2)], model_dim=8, dropout=0.9, residual="pre-ln")
    stack.layers[1].eval()
    passed: list[Tensor] = []
    for layer in stack.layers:
        layer.register_forward_hook(lambda layer, given, state: passed.append(state))
    x = torch.randn(6, 8)
    stack(x)
    assert (passed[0] == x).float().mean() > 0.5
    torch.testing.assert_close(passed[1], stack.layers[1](passed[0], {}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "xaver"}, "init: unknown value 'xaver'; did you mean 'xavier'"),
        ({"part_of": "encodr"}, "part_of: unknown value 'encodr'; did you mean 'encoder'"),
        ({"part_of": "encoder"}, "give other_num_layers"),
        ({"dropout": float("nan")}, "dropout"),
        ({"dropout": 1.0}, "dropout: .*less than 1"),
        ({"model_dim": 0}, "model_dim: .*at least 1"),
        ({"residual": None}, "residual: must be text"),
        ({"residual": "resi-dual", "dual_scale": True}, "dual_scale is a number or a word, not true"),
        ({"residual": "resi-dual", "dual_scale": float("inf")}, "dual_scale: .*finite"),
    ],
)
def test_what_a_stack_takes_is_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Stack([[nn.Linear(4, 4)]], **({"model_dim": 4} | options))


@pytest.mark.parametrize("layers", [[], [[]], [[nn.Linear(4, 4)], []], [nn.Linear(4, 4)]])
def test_an_empty_stack(layers: list[list[nn.Module]]) -> None:
    with pytest.raises(UserError, match="at least one layer"):
        Stack(layers, model_dim=4)


def test_layers_may_be_module_lists_sequentials_and_generators() -> None:
    x, modules = torch.randn(3, 4), [nn.Linear(4, 4) for _ in range(4)]
    expected = Stack([modules[:2], modules[2:]], model_dim=4)(x)
    both = [nn.ModuleList(modules[:2]), nn.Sequential(*modules[2:])]
    for layers in (
        nn.ModuleList(both),
        nn.Sequential(*both),
        (pair for pair in both),
        ((each for each in pair) for pair in both),
        tuple(map(tuple, both)),
    ):
        stack = Stack(layers, model_dim=4)
        assert [len(layer.sublayers) for layer in stack.layers] == [2, 2]
        assert torch.equal(stack(x), expected)


def my_function(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (my_function, "layer 1: my_function is a function, not a module"),
        (nn.Linear, r"layer 1: Linear is a class; call it.*Linear\(…\)"),
        ("attention", "layer 1: 'attention' is of type str, not a module"),
    ],
)
def test_what_is_not_a_module_is_refused_by_name(given: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Stack([[nn.Linear(4, 4)], [nn.Linear(4, 4), given]], model_dim=4)


def test_norm_takes_a_dictionary_as_in_a_transformer() -> None:
    stack = Stack([[nn.Linear(4, 4)]], model_dim=4, norm={"kind": "rms", "eps": 1e-3})
    assert stack.options.norm == lamina.NormOptions(kind="rms", eps=1e-3)
    assert stack.layers[0].sites[0].norm.eps == 1e-3
    with pytest.raises(UserError, match=r"norm: epss: unknown option 'epss'; did you mean 'eps'"):
        Stack([[nn.Linear(4, 4)]], model_dim=4, norm={"epss": 1e-3})


@pytest.mark.parametrize("name", residual.names())
@pytest.mark.usefixtures("float64")
def test_sublayers_that_change_their_input_in_place_harm_nothing(name: str) -> None:
    class InPlace(nn.Module):
        def __init__(self, plain: nn.Module) -> None:
            super().__init__()
            self.plain = plain

        def forward(self, x: Tensor) -> Tensor:
            return self.plain(x.mul_(0.5).relu_())

    class Plain(InPlace):
        def forward(self, x: Tensor) -> Tensor:
            return self.plain((0.5 * x).relu())

    modules = [nn.Linear(6, 6) for _ in range(4)]
    x, found = torch.randn(5, 6), []
    given = x.clone()
    for kind in (InPlace, Plain):
        layers = [[kind(each) for each in modules[:2]], [kind(each) for each in modules[2:]]]
        stack = Stack(
            layers, model_dim=6, residual=name, init=None, **({"omega": "closed-form"} if name == "admin" else {})
        )
        found.append(stack(given))
        assert torch.equal(given, x), "the caller's tensor is unchanged"
        leaf = x.clone().requires_grad_()
        found.append(torch.autograd.grad(stack(leaf).pow(3).sum(), leaf)[0])
    torch.testing.assert_close(found[:2], found[2:], atol=0, rtol=0)


def test_lamina_s_own_sublayers_get_the_stream_without_a_copy() -> None:
    model = small_model("post-ln")
    seen: list[Tensor] = []
    for layer in model.encoder.layers:
        for sublayer in layer.sublayers:
            sublayer.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    written: list[Tensor] = []
    for layer in model.encoder.layers:
        for site in layer.sites:
            site.norm.register_forward_hook(lambda *given: written.append(given[-1]))
    model(SOURCE, TARGET)
    assert all(one is other for one, other in zip(written, seen[1:], strict=False))


@pytest.mark.parametrize("name", ["deep-norm", "fixup"])
def test_cross_attention_needs_part_of_where_a_decoder_has_other_constants(name: str) -> None:
    class ReadsMemory(nn.Module):
        def forward(self, x: Tensor, memory: Tensor) -> Tensor:
            return x + memory.mean()

    layers = [[ReadsMemory()]]
    with pytest.raises(UserError, match=r"sub-layer 0 .*part_of='decoder' and other_num_layers.*part_of='single'"):
        Stack(layers, model_dim=4, residual=name)
    Stack(layers, model_dim=4, residual=name, part_of="single")
    Stack(layers, model_dim=4, residual=name, part_of="decoder", other_num_layers=6)
    Stack(layers, model_dim=4, residual="pre-ln")


@pytest.mark.parametrize("name", residual.names())
def test_exported_programs_load_again(name: str) -> None:
    x = torch.randn(5, 6)
    stack = ready(small_stack(name, 2), x).eval()
    file = io.BytesIO()
    torch.export.save(torch.export.export(stack, (x,)), file)
    file.seek(0)
    torch.testing.assert_close(torch.export.load(file).module()(x), stack(x))


def test_bad_names_and_options_name_the_nearest() -> None:
    layers = [[nn.Linear(4, 4)]]
    with pytest.raises(UserError, match=r"unknown residual scheme 'resdual'; did you mean 'resi-dual'"):
        Stack(layers, model_dim=4, residual="resdual")
    with pytest.raises(
        UserError, match=r"'resi-dual': dual_scal: unknown option 'dual_scal'; did you mean 'dual_scale'"
    ):
        Stack(layers, model_dim=4, residual="resi-dual", dual_scal=2)
    with pytest.raises(UserError, match=r"'resi-dual': dual_scale: .*greater than 0.* \(given: -1\)"):
        Stack(layers, model_dim=4, residual="resi-dual", dual_scale=-1)
    with pytest.raises(UserError, match=r"'pre-ln': omega: unknown option 'omega'"):
        Stack(layers, model_dim=4, residual="pre-ln", omega="paper")
    with pytest.raises(UserError, match=r"norm: kind: unknown value 'lyer'; did you mean 'layer'"):
        Stack(layers, model_dim=4, norm="lyer")
    with pytest.raises(UserError, match="switch_layer is 3, but the stack has only 1"):
        Stack(layers, model_dim=4, residual="mix-ln", switch_layer=3)


def test_a_wrong_width() -> None:
    with pytest.raises(UserError, match="8 wide, but its input has 4 channels"):
        Stack([[nn.Linear(8, 8)]], model_dim=8)(torch.randn(3, 4))


def test_dropout_is_off_by_default_and_on_branches_when_asked() -> None:
    x = torch.randn(50, 8)
    quiet = Stack([[nn.Identity()]], model_dim=8, residual="t-fixup")
    assert torch.equal(quiet(x), 2 * x)
    noisy = Stack([[nn.Identity()]], model_dim=8, residual="t-fixup", dropout=0.5)
    values = (noisy(x) / x).round().unique().tolist()
    assert values == [1.0, 3.0]
    assert torch.equal(noisy.eval()(x), 2 * x)


def test_encoder_and_decoder_may_differ() -> None:
    model = small_model(("post-ln", "pre-ln"))
    assert (model.encoder.residual.name, model.decoder.residual.name) == ("post-ln", "pre-ln")
    assert model(SOURCE, TARGET).isfinite().all()
    options = ({"dual_scale": 0.5}, {"switch_layer": 1})
    model = small_model(("resi-dual", "mix-ln"), residual_options=options)
    assert model.encoder.residual.options.dual_scale == 0.5
    assert model.decoder.residual.num_post == 1


@pytest.mark.parametrize("name", ["pre-ln", "deep-norm", "admin", "b2t", "resi-dual"])
def test_a_thousand_layers(name: str) -> None:
    sizes = {"kind": "decoder", "model_dim": 32, "feed_forward_dim": 64, "num_heads": 2, "vocab_size": 50}
    model = lamina.Transformer.from_preset("iwslt", residual=name, num_layers=1000, dropout=0.0, **sizes)
    tokens = torch.randint(1, 50, (2, 6))
    model.calibrate(tokens)
    loss = model(tokens, labels=tokens.roll(-1, 1)).smoothed.mean()
    loss.backward()
    assert loss.isfinite()
    gradients = [parameter.grad for parameter in model.stack.layers[0].parameters()]
    assert all(gradient.isfinite().all() for gradient in gradients)
    if name in ("pre-ln", "resi-dual"):
        assert gradients[0].abs().max() > 1e-8
