"""The examination of modules and factories, through `lamina.diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina.diagnosis.examine import structure_of
from lamina.diagnosis.measures import measures_that_need
from lamina.diagnosis.options import Thresholds
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.results import Diagnosis, SchemeTrait
from lamina.errors import UserError
from support.small_models import Mixer

X = torch.randn(8, 5, 16, generator=torch.Generator().manual_seed(1))
RECORDED = {"gradient-by-layer", "gradient-along-stream", "gradient-at-norms", "stream-norms", "norm-jacobian"}
RECORDED |= {"hidden-change", "cosine-of-layers", "layer-dependency", "gradient-when-moved", "gradient-coverage"}
RECORDED |= {"module-ranges"}
FURTHER = {"attention-logits", "attention-entropy", "outlier-channels", "effective-rank", "critical-learning-rate"}
FURTHER |= {"update-size", "weight-scale", "gradient-against-epsilon"}
OF_TOKENS = {"initial-loss", "target-alignment", "information-leak", "weight-tying"}
OF_OPTIMISER = {"adam-rms", "optimiser-settings"}
OF_DEPTH = {"gradient-against-depth", "output-change", "coordinate-check"}
OF_WIDTH = {"coordinate-check-by-width"}
OF_TRAINING = {each.key for each in measures_that_need("history") if "record" not in each.needs}


def encoder(num_layers: int = 2) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def stack(seed: int, num_layers: int = 2) -> lamina.Stack:
    roles = {"*.inner": "inner", "*.outer": "outer"}
    return lamina.Stack(
        [[Mixer(16)] for _ in range(num_layers)], model_dim=16, residual="resi-dual", roles=roles, init="xavier"
    )


def same(one: Diagnosis, other: Diagnosis) -> bool:
    """Compare as text: empty cells of a map are NaN, which is not equal to itself."""
    return one.model_dump_json() == other.model_dump_json()


def test_a_module_is_measured_over_batches(tmp_path: Path) -> None:
    report = lamina.diagnose(encoder(), X, batches=3)
    diagnosis = report.diagnosis
    assert (diagnosis.name, diagnosis.model) == ("TransformerEncoder", "2 TransformerEncoder, width 16")
    assert (diagnosis.spread_over, diagnosis.repeats) == ("batches", 3)
    assert {each.key for each in diagnosis.measurements} == RECORDED | FURTHER | {"layer-structure", "dropout-rates"}
    assert {
        each.key for each in diagnosis.not_measured
    } == OF_DEPTH | OF_WIDTH | OF_TRAINING | OF_TOKENS | OF_OPTIMISER | {
        "added-block",
        "gradient-by-stream",
        "stream-mixing",
        "dead-units",  # of fewer than sixteen positions
    }
    for key in OF_DEPTH:
        with pytest.raises(UserError, match="needs a config, or a factory that takes num_layers"):
            diagnosis[key]
    for key in OF_TRAINING:
        with pytest.raises(UserError, match=r"follows an optimiser in training: lamina.watch.*diagnose.every"):
            diagnosis[key]
    assert report["stream-norms"].measured[0].spread
    assert report.findings == diagnosis.findings
    assert report.findings
    for name in ("why.html", "why.md", "why.json"):
        report.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert same(Diagnosis.read(tmp_path / "why.json"), diagnosis)
    assert str(report).startswith("# Diagnosis: TransformerEncoder")


def test_a_quick_diagnosis_names_what_it_leaves_out() -> None:
    quick = lamina.diagnose(encoder(), X, learning_rate=1e-3, quick=True).diagnosis
    full = lamina.diagnose(encoder(), X, learning_rate=1e-3).diagnosis
    slow = {each.key: each.reason for each in quick.not_measured if each.lacks == ("quick",)}
    assert set(slow) == {"gradient-when-moved", "gradient-by-stream", *OF_DEPTH, *OF_WIDTH}
    assert "part of the full one" in slow["gradient-when-moved"]
    taken, all_taken = ({each.key for each in diagnosis.measurements} for diagnosis in (quick, full))
    assert taken == all_taken - set(slow)
    (finding,) = [each for each in quick.findings if each.check == "learning-rate"]
    assert finding.severity == "not measured"
    assert "too long for a quick diagnosis" in finding.sentence


def test_a_quick_diagnosis_builds_two_models_at_most() -> None:
    built: list[int | None] = []

    def make(seed: int, num_layers: int = 2) -> nn.Module:
        built.append(num_layers)
        return encoder(num_layers)

    quick = lamina.diagnose(make, X, seeds=5, quick=True).diagnosis
    assert (quick.spread_over, quick.repeats) == ("seeds", 2)
    assert built == [2, 2, 2], "one to look at the batches, and two to measure; no other depths"


def test_a_factory_is_measured_over_seeds_and_against_depth() -> None:
    seen: list[tuple[str, int, int | None]] = []
    progress = lambda stage, done, total: seen.append((stage, done, total))  # noqa: E731
    diagnosis = lamina.diagnose(stack, X, seeds=2, name="mine", progress=progress).diagnosis
    assert (diagnosis.spread_over, diagnosis.repeats, diagnosis.schemes) == ("seeds", 2, ("resi-dual",))
    assert diagnosis.model == "2 Stack, width 16, resi-dual"
    own = {"added-block", "gradient-by-stream", "stream-mixing"}
    unlike = {"attention-logits", "attention-entropy"}
    assert {each.key for each in diagnosis.measurements} >= RECORDED | OF_DEPTH | own | FURTHER - unlike
    assert {each.key for each in diagnosis.not_measured} >= OF_TRAINING | OF_TOKENS | OF_OPTIMISER | unlike
    assert [each[1:] for each in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_the_gradient_against_depth_is_a_mean_over_all_batches() -> None:
    """The gradients of two batches whose losses have opposite signs cancel."""
    batches = [{"x": X[:4], "sign": sign} for sign in (1.0, -1.0)]

    class Signed(nn.Module):
        def __init__(self, num_layers: int) -> None:
            super().__init__()
            self.body = encoder(num_layers).eval()

        def forward(self, x: torch.Tensor, sign: float) -> dict[str, torch.Tensor]:
            return {"loss": sign * self.body(x).square()[..., 0].mean()}

    def power(given: Any) -> float:
        report = lamina.diagnose(lambda seed, num_layers=2: Signed(num_layers), given, seeds=1)
        return max(report["gradient-against-depth"].measured[0].y)

    assert power(batches) < 1e-3 * power(batches[:1])


def test_depths_can_be_chosen() -> None:
    report = lamina.diagnose(stack, X, seeds=1, depths=(5, 2))
    assert report["output-change"].measured[0].x == (2, 5)
    with pytest.raises(UserError, match=r"at least two numbers of layers, from 1 up, not \(3,\)"):
        lamina.diagnose(stack, X, depths=[3])
    with pytest.raises(UserError, match="from 1 up"):
        lamina.diagnose(stack, X, depths=[0, 3])


def test_a_batch_that_cannot_be_cut_leaves_a_note() -> None:
    cut, whole = (lamina.diagnose(encoder(), given).diagnosis for given in (X, X[:1]))
    assert not any("no spread" in note for note in cut.notes)
    assert any("only one batch was examined, so numbers have no spread" in note for note in whole.notes)
    assert all(not each.spread for found in whole.measurements for each in found.measured)


def test_buffers_are_left_as_they_were() -> None:
    class Averaging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.norm = encoder(), nn.BatchNorm1d(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.body(x).flatten(0, 1))

    class Rebinding(Averaging):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(16))
            self.register_buffer("shared", torch.ones(1, 1).expand(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = 0.9 * self.mean + 0.1 * x.mean((0, 1)).detach()
            return super().forward(x)

    model = Rebinding().train()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    assert before
    lamina.diagnose(model, X)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())


def test_a_loss_that_raises_for_moved_weights_does_not_end_the_diagnosis() -> None:
    """The loss raises only for weights that the measure has moved."""
    model = encoder().eval()
    usual = model(X).abs().max().item()

    def guarded(output: torch.Tensor) -> torch.Tensor:
        if output.abs().max() > usual + 1e-3:
            raise FloatingPointError("loss exploded")
        return output[..., 0].square().mean()

    report = lamina.diagnose(model, X, guarded, batches=1, learning_rate=1e-3)
    with pytest.raises(UserError, match=r"with all weights moved by .* it raised FloatingPointError: loss exploded"):
        report["gradient-when-moved"]
    assert report["gradient-by-layer"]


def test_the_learning_rate_is_checked_if_it_is_given() -> None:
    silent, told = (lamina.diagnose(encoder(), X, learning_rate=rate) for rate in (None, 1e-3))
    (unknown,) = (each for each in silent.findings if each.check == "learning-rate")
    assert unknown.severity == "not measured"
    (found,) = (each for each in told.findings if each.check == "learning-rate")
    assert found.spread is not None, "over batches"
    assert found.location.stack == "stack"
    for bad in (0.0, -1e-3, float("nan")):
        with pytest.raises(UserError, match="learning_rate is the highest learning rate, above 0, not"):
            lamina.diagnose(encoder(), X, learning_rate=bad)


@pytest.mark.parametrize("number", [0, -1])
def test_no_seeds_and_no_batches(number: int) -> None:
    with pytest.raises(UserError, match=f"seeds is the number of models .* at least 1, not {number}"):
        lamina.diagnose(stack, X, seeds=number)
    with pytest.raises(UserError, match=f"batches is the number of parts .* at least 1, not {number}"):
        lamina.diagnose(encoder(), X, batches=number)


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    report = lamina.diagnose(encoder(), X, name="caf\udce9")
    report.save(tmp_path / "why.json")
    assert Diagnosis.read(tmp_path / "why.json").name == "caf?"


def test_findings_use_the_given_thresholds() -> None:
    usual, strict = (
        lamina.diagnose(encoder(), X),
        lamina.diagnose(encoder(), X, thresholds=Thresholds.read({"vanishing": {"warning": 1e6}}, "test")),
    )
    thresholds = [
        [each.threshold for each in report.findings if each.check == "vanishing"] for report in (usual, strict)
    ]
    assert thresholds == [[0.3], [1e6]]
    assert [each.severity for each in strict.findings if each.check == "vanishing"] != ["fine"]


def test_a_factory_without_a_depth_says_so() -> None:
    diagnosis = lamina.diagnose(lambda seed: encoder(), X, seeds=2).diagnosis
    assert diagnosis.spread_over == "seeds"
    assert {each.key for each in diagnosis.not_measured} >= OF_DEPTH


def test_nothing_of_the_user_s_is_changed() -> None:
    model = encoder()
    model(X).sum().backward()
    weights = [parameter.clone() for parameter in model.parameters()]
    gradients = [parameter.grad for parameter in model.parameters()]
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    lamina.diagnose(model, X)
    assert torch.equal(torch.rand(2), expected)
    assert model.training
    assert all(map(torch.equal, model.parameters(), weights))
    assert all(one.grad is two for one, two in zip(model.parameters(), gradients, strict=True))


@pytest.mark.parametrize("subject", [encoder(), lambda: encoder()])
def test_the_same_numbers_come_again_and_the_random_state_is_kept(subject: Any) -> None:
    state = torch.get_rng_state()
    first, second = (lamina.diagnose(subject, X, seeds=2).diagnosis for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert same(first.model_copy(update={"seconds": 0.0}), second.model_copy(update={"seconds": 0.0}))


def test_a_stack_whose_matrices_have_no_roles() -> None:
    def make(seed: int) -> lamina.Stack:
        return lamina.Stack([[Mixer(16)], [Mixer(16)]], model_dim=16, residual="resi-dual")

    assert {each.key for each in lamina.diagnose(make, X, seeds=2).diagnosis.measurements} >= RECORDED


def test_descriptions() -> None:
    sizes = {"num_layers": (2, 3), "model_dim": 16, "num_heads": 2, "vocab_size": 40}
    model = lamina.Transformer.from_preset("iwslt", residual=("b2t", "pre-ln"), **sizes)
    ids = torch.randint(3, 40, (2, 5))
    record, _ = record_pass(model, lambda model: model(ids, ids, labels=ids).smoothed.mean())
    found = structure_of(model, record)
    assert found.description == "2-3 encoder-decoder, width 16, b2t, pre-ln"
    assert (found.schemes, found.sublayers_per_layer) == (("b2t", "pre-ln"), 2)
    assert found.placements == {"encoder": "post", "decoder": "pre"}


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_placement_of_a_foreign_model_is_never_advised(norm_first: bool) -> None:
    """With thresholds at which every check that advises a scheme finds something."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    strict: dict[str, Any] = {"vanishing": {"warning": 1e6, "failure": 1e5}, "collapse": {"warning": 1e6}}
    strict["amplification"] = {"warning": 1e-6, "failure": 1e-5}
    thresholds = Thresholds.read(strict, where="thresholds")
    found = lamina.diagnose(model, X, lambda y: y.pow(3).mean(), learning_rate=0.1, thresholds=thresholds).findings
    traits = [(each.check, remedy) for each in found for remedy in each.remedies if isinstance(remedy, SchemeTrait)]
    advised = {check: trait.schemes for check, trait in traits}
    assert {"vanishing", "collapse", "amplification"} <= set(advised)
    own, other = ("pre-ln", "post-ln") if norm_first else ("post-ln", "pre-ln")
    assert all(own not in schemes for schemes in advised.values())
    assert norm_first or any(other in schemes for schemes in advised.values())
