"""Every measure on a case that is small enough to compute by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lamina.diagnosis.measures import (
    added_block,
    average_all,
    cosine_of_layers,
    gradient_along_stream,
    gradient_at_norms,
    gradient_by_layer,
    hidden_change,
    layer_dependency,
    matrix_updates,
    norm_jacobian,
    stream_norms,
    take_all,
)
from lamina.diagnosis.measures.averaging import average
from lamina.diagnosis.measures.expected_gradient import ExpectedGradient
from lamina.diagnosis.measures.line import fit, fit_exponential, fit_logarithms
from lamina.diagnosis.measures.reading import NotMeasurable, placement_of
from lamina.diagnosis.recording.records import NormRecord, Record
from lamina.diagnosis.results import Grid, Measure, Series
from support.recorded import by_hand, gradients, line, mean_of, seen

EMPTY = Measure(key="a", title="", formula="", source="", look_for="")


def test_stream_norms_are_mean_squares() -> None:
    record = by_hand([seen([[1, 1], [3, 1]]), seen([[2, 0], [0, 0]])], [seen([[1, 2], [0, 1]])])
    measure = stream_norms.take([record])
    assert line(measure.measured, "stack") == (3.0, 1.0)  # (2 + 10) / 2 / 2, (4 + 0) / 2 / 2
    assert line(measure.measured, "stack branch") == (1.5,)
    assert measure.theory == ()  # nothing is known of sub-layers of kind "x"


def test_only_real_positions_count() -> None:
    padded = by_hand([seen([[1, 1], [9, 9]]), seen([[2, 0], [9, 9]])], real=torch.tensor([True, False]))
    assert line(stream_norms.take([padded]).measured, "stack") == (1.0, 2.0)


def test_concentration_is_the_share_far_above_the_mean() -> None:
    x = seen([[2.0, 0], [1, 0], [1, 0], [1, 0]])  # squares over d: 2, ½, ½, ½; mean 0.875
    norm = NormRecord("n", nn.LayerNorm(2), None, x, x)
    assert stream_norms.take([by_hand([x, x], norms=[norm])]).facts["stack δ"] == 0.25


def test_lemma_2_counts_the_kinds_of_sublayers(float64: None) -> None:
    x, y = seen(torch.ones(4, 2)), seen(2 * torch.ones(4, 2))
    z = seen(torch.randn(4, 2))
    norms = [NormRecord("n", nn.LayerNorm(2), index, x, z) for index in range(3)]
    record = by_hand([x, y, y, y], [y, y, y], norms, ["self-attention", "cross-attention", "feed-forward"], 3)
    for sublayer in record.stacks[0].sublayers:
        sublayer.read = z  # what the norms gave: pre-LN
    assert placement_of(record.stacks[0]) == "pre"
    theory = stream_norms.take([record]).theory
    assert line(theory, "stack at least") == (1, 1, 1, 1.5)
    assert line(theory, "stack at most") == (1, 2, 3, 3.5)


def test_placement_is_told_from_what_leaves_the_norms() -> None:
    x, y, z = (seen(torch.randn(4, 2)) for _ in range(3))
    norm = NormRecord("n", nn.LayerNorm(2), 0, x, y)
    assert placement_of(by_hand([x, y], [z], [norm]).stacks[0]) == "post"
    assert placement_of(by_hand([x, y, z], [z, z], [norm]).stacks[0]) == "post"  # the second reads y, the stream
    pre = by_hand([x, z], [z], [norm])
    pre.stacks[0].sublayers[0].read = y
    assert placement_of(pre.stacks[0]) == "pre"
    assert placement_of(by_hand([x, z], [z], [norm]).stacks[0]) == "none"
    assert placement_of(by_hand([x, y], None, [norm]).stacks[0]) is None


def test_expected_gradients_are_averaged_before_the_norm() -> None:
    one = Record(0.0, [], gradients(encoder_0_query=torch.tensor([[3.0, 0.0]]), encoder_1_query=torch.ones(1, 2)))
    two = Record(0.0, [], gradients(encoder_0_query=torch.tensor([[-3.0, 8.0]]), encoder_1_query=torch.ones(1, 2)))
    measure = gradient_by_layer.take([one, two])
    assert line(measure.measured, "encoder query") == pytest.approx((4.0, math.sqrt(2)))
    assert gradient_by_layer.conclude(measure).facts["encoder query first/last"] == pytest.approx(4 / math.sqrt(2))


def test_batches_can_be_left_out_of_the_expected_gradient() -> None:
    expected = ExpectedGradient(parts=2)
    for value in (1.0, 2.0, 6.0):  # the first part has the first and the third
        expected.add(gradients(encoder_0_query=torch.tensor([[value]])))
    (name,) = expected.mean()
    assert [expected.mean(without)[name].item() for without in (None, 0, 1)] == [3.0, 2.0, 3.5]
    expected.add(gradients(encoder_0_key=torch.tensor([[4.0]])))
    assert [each.item() for each in expected.mean().values()] == [2.25, 1.0], "where none came it is zero"
    with pytest.raises(NotMeasurable, match="no gradient reached a weight matrix"):
        ExpectedGradient().mean()


def test_matrices_of_one_kind_in_a_layer_count_as_one() -> None:
    names = list(gradients(decoder_0_key=torch.tensor(0.0)))
    other = type(names[0])("another path", "decoder", 0, "key")
    record = Record(0.0, [], {names[0]: torch.tensor([[3.0]]), other: torch.tensor([[4.0]])})
    assert line(gradient_by_layer.take([record]).measured, "decoder key") == (5.0,)


def test_gradient_along_stream_is_relative_to_the_largest() -> None:
    states = [seen([[1.0]], 9.0), seen([[1.0]], 1.0), seen([[1.0]], 4.0)]
    measure = gradient_along_stream.take([by_hand(states, kinds=["self-attention", "feed-forward"], per_layer=2)])
    assert line(measure.measured, "stack") == (0.25, 1.0)  # x₀ is no sub-layer's
    assert measure.facts == {"stack layers": 1, "stack feed-forward below/above": 0.25}
    assert gradient_along_stream.conclude(measure).facts["stack slope"] == pytest.approx(math.log(4))
    with pytest.raises(NotMeasurable, match="no gradient"):
        gradient_along_stream.take([by_hand([seen([[1.0]]), seen([[1.0]])])])


def test_gradient_at_norms() -> None:
    x = seen([[1.0]], 1.0)
    norms = [NormRecord("n", nn.LayerNorm(1), place, seen([[1.0]], a), seen([[1.0]], b)) for place, a, b in
             [(0, 2.0, 4.0), (1, 3.0, 4.0), (None, 5.0, 4.0)]]  # fmt: skip
    measure = gradient_at_norms.take([by_hand([x, x, x], norms=norms, kinds=["feed-forward"] * 2)])
    assert line(measure.measured, "stack input") == (2, 3, 5)
    assert line(measure.measured, "stack output") == (4, 4, 4)
    assert measure.facts == {"stack feed-forward input/output": 0.625, "stack end input/output": 1.25}
    norms[0].input.gradient_norm = None  # an input that no weight has touched
    measure = gradient_at_norms.take([by_hand([x, x, x], norms=norms, kinds=["feed-forward"] * 2)])
    assert math.isnan(line(measure.measured, "stack input")[0])
    assert measure.facts["stack feed-forward input/output"] == 0.75
    for norm in norms:
        norm.input.gradient_norm = None
    with pytest.raises(NotMeasurable, match="no gradient came back to the norms"):
        gradient_at_norms.take([by_hand([x, x, x], norms=norms, kinds=["feed-forward"] * 2)])


def test_cosines() -> None:
    states = [seen([[9.0, 9.0], [9.0, 9.0]]), seen([[1, 0], [0, 2]]), seen([[1, 1], [0, -1]])]
    (grid,) = cosine_of_layers.take([by_hand(states)]).grids
    assert [value for row in grid.values for value in row] == pytest.approx([1, c := (math.sqrt(0.5) - 1) / 2, c, 1])


def test_hidden_change_compares_normalised_states() -> None:
    states = [seen([[1.0, 3.0]]), seen([[10.0, 30.0]]), seen([[3.0, 1.0]])]
    measure = hidden_change.take([by_hand(states)])
    assert line(measure.measured, "stack") == pytest.approx((0.0, 2.0))


def test_hidden_change_is_not_blind_to_small_streams() -> None:
    states = [seen([[1e-3, 3e-3]]), seen([[3e-3, 1e-3]])]
    assert line(hidden_change.take([by_hand(states)]).measured, "stack") == pytest.approx((2.0,), rel=1e-5)


def test_norm_jacobian_of_the_module_itself(float64: None) -> None:
    """Against the whole Jacobian, with a gain."""
    norm = nn.LayerNorm(7)
    nn.init.normal_(norm.weight)
    x = torch.randn(3, 7)
    jacobian = torch.func.vmap(torch.func.jacrev(norm))(x)
    assert torch.allclose(norm_jacobian.spectral_norms(norm, x, 500), torch.linalg.matrix_norm(jacobian, 2))


def test_dependency_on_foreign_sums_and_norms(float64: None) -> None:
    x, f = seen([[1.0, -1.0]]), seen([[3.0, -3.0]])
    (grid,) = layer_dependency.take([by_hand([x, seen([[4.0, -4.0]])], [f])]).grids
    assert grid.values[0] == pytest.approx((0.25, 0.75))
    norm = nn.LayerNorm(2, eps=0.0)
    after = seen(norm(torch.tensor([[4.0, -4.0]])).detach())
    record = by_hand([x, after], [f], [NormRecord("n", norm, 0, seen([[4.0, -4.0]]), after)])
    (grid,) = layer_dependency.take([record]).grids
    assert grid.values[0] == pytest.approx((0.25, 0.75))
    with pytest.raises(NotMeasurable, match="neither a sum"):
        layer_dependency.take([by_hand([x, seen([[7.0, 7.0]])], [f])])


def test_updates_are_relative_to_the_largest() -> None:
    grads = gradients(decoder_0_query=torch.tensor([[1.0]]), decoder_0_value=torch.tensor([[4.0]]))
    before = gradients(decoder_0_query=torch.tensor([[1.0]]), decoder_0_value=torch.tensor([[1.0]]))
    after = gradients(decoder_0_query=torch.tensor([[1.5]]), decoder_0_value=torch.tensor([[0.0]]))
    measure = matrix_updates.take(grads, before, after)
    assert line(measure.measured, "decoder query gradient") == (0.25,)
    assert line(measure.measured, "decoder query update") == (0.5,)
    assert measure.facts == {"gradient largest/least": 4.0, "update largest/least": 2.0}
    over = matrix_updates.over_training({100: measure, 200: measure})
    assert over.measured[0].x == (100, 200)
    assert line(over.measured, "decoder value update") == (1.0, 1.0)


def test_lines() -> None:
    assert fit([1, 2, 3], [3, 5, 7]) == pytest.approx((2, 1, 1))
    assert fit([0, 1, 2], [0, 1, 0]).r_squared == pytest.approx(0)
    assert fit_logarithms([1, 4, 16], [1, 0.5, 0.25]).slope == pytest.approx(-0.5)
    assert fit_exponential([0, 1, 2], [1, math.e, math.e**2]).slope == pytest.approx(1)
    assert math.isnan(fit([1, 1], [1, 2]).slope)
    assert math.isnan(fit_logarithms([1, 2], [0, 1]).slope)


def test_several_samples_become_means_with_deviations() -> None:
    nan = math.nan
    one, two = (
        EMPTY.model_copy(
            update={
                "measured": (Series(label="a", x=(1, 2), y=(y, math.inf)),),
                "theory": (Series(label="t", x=(1,), y=(y,), dashes=True),),
                "grids": (Grid(label="g", values=((y, nan),), rows="", columns=""),),
                "facts": {"f": y},
            }
        )
        for y in (1.0, 3.0)
    )
    (mean,) = mean_of([[one], [two]])
    assert line(mean.measured, "a") == (2.0, math.inf)
    assert mean.measured[0].spread[0] == pytest.approx(math.sqrt(2))
    assert line(mean.theory, "t") == (2.0,)
    assert mean.theory[0].spread == ()
    assert mean.theory[0].dashes
    assert mean.grids[0].values[0][0] == 2.0
    assert math.isnan(mean.grids[0].values[0][1])
    assert mean.facts == {"f": 2.0}
    assert mean.fact_spreads == {"f": pytest.approx(math.sqrt(2))}
    assert average([one]) is one
    (alone,) = mean_of([[one]])
    assert (alone.measured[0].spread, alone.fact_spreads) == ((), {})


def test_what_follows_from_the_numbers_has_a_spread_too() -> None:
    """The slope of the mean line, with the deviation of the samples' own slopes."""
    lines = ((1.0, math.e), (1.0, math.e**3))
    samples = [
        [gradient_by_layer.MEASURE.model_copy(update={"measured": (Series(label="a", x=(1, 2), y=y),)})] for y in lines
    ]
    (mean,) = mean_of(samples)
    assert mean.facts["a slope"] == pytest.approx(math.log((math.e + math.e**3) / 2))
    assert mean.fact_spreads["a slope"] == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    "changes",
    [
        [{"measured": (Series(label="a", x=tuple(range(length)), y=(1,) * length),)} for length in (1, 2)],
        [{"grids": (Grid(label="a", values=((1.0,) * size,) * size, rows="", columns=""),)} for size in (1, 2)],
    ],
)
def test_samples_at_different_places_have_no_mean(changes: list[dict[str, object]]) -> None:
    one, two = (EMPTY.model_copy(update=each) for each in changes)
    with pytest.raises(NotMeasurable, match=r"not the same in every pass.*model.eval\(\)"):
        average([one, two])
    means, (skipped,) = average_all([[one], [two]])
    assert (means, skipped.key) == ([], "a")


def test_what_cannot_be_measured_says_why() -> None:
    measures, skipped = take_all([by_hand([seen([[1.0, 2.0]]), seen([[2.0, 2.5]])])])
    assert {each.key for each in measures} == {"stream-norms", "hidden-change", "cosine-of-layers"}
    reasons = {each.key: each.reason for each in skipped}
    assert "no gradient reached" in reasons["gradient-by-layer"]
    assert "branches" in reasons["layer-dependency"]
    assert "Lamina's own" in reasons[added_block.MEASURE.key]
    assert "no norms" in reasons["norm-jacobian"]
    _, skipped = take_all([Record(0.0, [])])
    assert len(skipped) == 9
