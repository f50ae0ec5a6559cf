"""The measures agree with the papers' theorems in the setting that these assume, as means over 32 seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from statistics import fmean, stdev

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.measures.gradient_against_depth import GradientAgainstDepth
from lamina.diagnosis.measures.hidden_change import HiddenChange
from lamina.diagnosis.measures.layer_dependency import LayerDependency
from lamina.diagnosis.measures.output_change import OutputChange
from lamina.diagnosis.measures.stream_norms import StreamNorms
from lamina.diagnosis.recording.records import Record
from lamina.model.stack import Stack
from lamina.model.transformer import Transformer
from support.recorded import (
    IndependentBranch,
    fact,
    feed_forward_stack,
    line,
    mean_of,
    recorded,
    some_loss,
    take,
)

SEEDS, WIDTH, WORDS = range(32), 256, 400


def theory_model(residual: str, seed: int, num_layers: int) -> Transformer:
    """Inputs are N(0, I): rows of the table times √d, without positions."""
    torch.manual_seed(seed)
    sizes = {"num_layers": num_layers, "model_dim": WIDTH, "feed_forward_dim": WIDTH, "vocab_size": WORDS}
    return Transformer.from_preset("theory", residual=residual, head="words", **sizes)


class Batch:
    """Random words and labels in sequences of a length."""

    def __init__(self, sequences: int, length: int) -> None:
        self.words, self.labels = torch.randint(1, WORDS, (2, sequences, length))

    def __call__(self, model: nn.Module) -> Tensor:
        return model(self.words, labels=self.labels).smoothed.mean()


def assert_meets(samples: Sequence[float], expected: float, tolerance: float) -> None:
    """The mean lies within the tolerance and within three standard errors."""
    mean, error = fmean(samples), stdev(samples) / sqrt(len(samples))
    assert mean == pytest.approx(expected, rel=tolerance)
    assert abs(mean - expected) <= 3 * error


def test_lemma_1() -> None:
    """ReLU halves the expected squared norm, and matrices N(0, 1/d) keep it: a feed-forward branch has half the size of
    what it read."""
    halves = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        stack, x = feed_forward_stack("post-ln", 4, WIDTH), torch.randn(64, WIDTH)
        measure = take(StreamNorms, recorded(stack, lambda model, x=x: some_loss(model(x))))
        halves.append(fact(measure, "branch/read", sublayer_kind="feed-forward"))
    assert_meets(halves, 0.5, 0.01)


def of_theory(scheme: str, seeds: range) -> list[Record]:
    return [recorded(theory_model(scheme, seed, 6), Batch(4, 8)) for seed in seeds]


@pytest.mark.slow
def test_lemma_2_in_post_ln() -> None:
    """Three times the seeds: positions become alike, so that a seed counts for little more than one position."""
    norms = [take(StreamNorms, record) for record in of_theory("post-ln", range(96))]
    into = [line(each, quantity="norm input") for each in norms]
    for layer in range(6):
        assert_meets([each[2 * layer + 1] for each in into], 1.5, 0.03)
        assert 1 <= fmean(each[2 * layer] for each in into) <= 2  # S-02: attention at most doubles it
    # S-03, which rests on Lemma 1: a feed-forward branch has half its input's size.
    assert_meets([fact(each, "branch/read", sublayer_kind="feed-forward") for each in norms], 0.5, 0.03)
    assert norms[0].predicted[0].y == (1.5,) * 6


@pytest.mark.slow
def test_lemma_2_in_pre_ln() -> None:
    (mean,) = mean_of([[take(StreamNorms, record)] for record in of_theory("pre-ln", SEEDS)])
    least, most = (line(mean, role="bound", quantity=quantity) for quantity in ("at least", "at most"))
    for layer in range(1, 7):
        assert least[2 * layer] == pytest.approx(1 + layer / 2, rel=0.03)
        assert most[2 * layer] == pytest.approx(1 + 3 * layer / 2, rel=0.03)
        assert 0.97 * least[2 * layer] <= line(mean, quantity="stream")[2 * layer] <= 1.03 * most[2 * layer]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["post-ln", "pre-ln"])
def test_squares_of_the_rows_of_beta_sum_to_one(scheme: str) -> None:
    (shares,) = mean_of([[take(LayerDependency, record)] for record in of_theory(scheme, SEEDS)])
    for row in shares.grids[0].values:
        assert sum(share**2 for share in row if share == share) == pytest.approx(1, abs=0.05)
    if scheme == "pre-ln":
        assert line(shares) == pytest.approx(line(shares, role="predicted"), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "power"), [("post-ln", 0.0), ("pre-ln", -0.5)])
def test_theorem_1(scheme: str, power: float) -> None:
    """In sequences of length one: in longer ones the attention branch grows while positions become alike, so that the
    pre-LN stream grows faster than the depth for a while, and the gradient falls as L^-0.65 between 6 and 14 layers."""
    torch.manual_seed(0)
    batch = Batch(16, 1)

    def factory(seed: int, num_layers: int | None) -> nn.Module:
        assert num_layers is not None
        return theory_model(scheme, seed, num_layers)

    place = "post" if scheme == "post-ln" else "pre"
    measure = GradientAgainstDepth().against_depth(factory, [batch], SEEDS, depths=(6, 10, 14), placement=place)
    (found,) = measure.find_facts("power")
    assert found.spread is not None
    assert found.value == pytest.approx(power, abs=0.1)
    assert abs(found.value - power) <= 3 * found.spread / sqrt(len(SEEDS))
    assert line(measure, role="predicted") == pytest.approx(line(measure), rel=0.1)


def independent(residual: str, deviation: float, x: Tensor) -> Measurement:
    """Sub-layers whose output is independent noise, as the theorems of ResiDual assume."""
    layers = [[IndependentBranch(WIDTH, len(x), deviation)] for _ in range(12)]
    stack = Stack(layers, model_dim=WIDTH, residual=residual)
    return take(HiddenChange, recorded(stack, lambda model: some_loss(model(x))))


def test_theorem_3_3() -> None:
    """Pre-LN without embedding: ω_k² = 2/(√k(√(k−1)+√k)) from k = 2 on."""
    samples = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        samples.append([independent("pre-ln", 0.7, torch.zeros(16, WIDTH))])
    (mean,) = mean_of(samples)
    expected = [sqrt(2 / pi) * sqrt(2 / (sqrt(k) * (sqrt(k - 1) + sqrt(k)))) for k in range(2, 13)]
    for number, omega in enumerate(expected, start=1):
        assert_meets([line(each)[number] for (each,) in samples], omega, 0.03)
    assert line(mean, role="predicted")[1:] == pytest.approx(expected, rel=0.03)
    assert fact(mean, "power") == pytest.approx(-0.5, abs=0.05)


@pytest.mark.parametrize("scheme", ["post-ln", "resi-dual"])
@pytest.mark.parametrize("deviation", [0.5, 1.0])
def test_theorem_3_6(scheme: str, deviation: float) -> None:
    """Post-LN and ResiDual: ω² = 2 − 2/√(1+σ²) at every depth."""
    samples = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        samples.append([independent(scheme, deviation, torch.randn(16, WIDTH))])
    (mean,) = mean_of(samples)
    expected = sqrt(2 / pi) * sqrt(2 - 2 / sqrt(1 + deviation**2))
    for number in range(12):
        assert_meets([line(each)[number] for (each,) in samples], expected, 0.03)
    assert line(mean, role="predicted") == pytest.approx([expected] * 12, rel=0.03)
    assert fact(mean, "power") == pytest.approx(0, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "fits", "does_not"), [("post-ln", "n", "ln n"), ("pre-ln", "ln n", "n")])
def test_output_change_against_depth(scheme: str, fits: str, does_not: str) -> None:
    """Corollaries 2 and 1 of Liu et al. in stacks of feed-forward sub-layers."""
    x = torch.randn(16, 128)

    def factory(seed: int, num_layers: int | None) -> nn.Module:
        assert num_layers is not None
        torch.manual_seed(seed)
        return feed_forward_stack(scheme, num_layers, 128)

    measure = OutputChange().against_depth(
        factory,
        lambda model: model(x),
        lambda model: [matrix.weight for entry in model.entries for matrix in entry.matrices],
        range(10),
        depths=(4, 8, 16, 32, 64, 100),
        sublayers_per_layer=1,
        placement=scheme.removesuffix("-ln"),  # type: ignore[arg-type]
    )
    assert fact(measure, f"R² of {fits}") >= 0.95
    assert fact(measure, f"R² of {fits}") > fact(measure, f"R² of {does_not}")
    assert measure.predicted[0].quantity == f"line in {fits}"
