"""The examination of one model batch by batch: means, the jackknife, and memory."""

from __future__ import annotations

import gc
import weakref
from statistics import fmean, stdev
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina.diagnosis import examine
from lamina.diagnosis.examine import PARTS, combine, conclude, examine_model
from lamina.diagnosis.measurement import Measurement
from lamina.diagnosis.recording.passes import record_pass
from support.recorded import line, some_loss
from support.small_models import Mixer

DIM = 16


def stack(**options: Any) -> lamina.Stack:
    torch.manual_seed(1)
    roles = {"*.inner": "inner", "*.outer": "outer"}
    return lamina.Stack(
        [[Mixer(DIM)], [Mixer(DIM)]], model_dim=DIM, residual="post-ln", roles=roles, **{"init": "xavier", **options}
    )


def passes(number: int) -> list[Any]:
    inputs = torch.randn(number, 7, DIM, generator=torch.Generator().manual_seed(2))
    return [lambda model, x=x: some_loss(model(x)) for x in inputs]


def examined(model: nn.Module, runs: list[Any], parts: int, key: str) -> Measurement:
    found = examine_model(model, runs, parts=parts)
    samples = [conclude(sample) for sample in found.samples]
    (measured,) = [each for each in combine(found.measurements, samples, found.scale) if each.key == key]
    return measured


def outer_gradients(model: lamina.Stack, runs: list[Any]) -> list[Tensor]:
    weight = model.layers[0].sublayers[0].outer.weight
    return [torch.autograd.grad(run(model), weight)[0] for run in runs]


def test_a_module_s_gradient_is_averaged_over_all_batches_before_the_norm(float64: None) -> None:
    model, runs = stack(), passes(4)
    measure = examined(model, runs, 4, "gradient-by-layer")
    gradients = outer_gradients(model, runs)
    expected = torch.stack(gradients).mean(0).norm().item()
    assert line(measure, matrix="outer")[0] == pytest.approx(expected)
    assert expected < 0.9 * fmean(each.norm().item() for each in gradients), "not the mean of the norms"


def test_its_spread_is_that_of_the_jackknife(float64: None) -> None:
    model, runs = stack(), passes(4)
    measure = examined(model, runs, 4, "gradient-by-layer")
    gradients = outer_gradients(model, runs)
    whole = torch.stack(gradients).mean(0).norm().item()
    without = [torch.stack(gradients[:at] + gradients[at + 1 :]).mean(0).norm().item() for at in range(4)]
    pseudo = [4 * whole - 3 * each for each in without]
    (series,) = measure.select(matrix="outer")
    assert series.spread[0] == pytest.approx(stdev(pseudo))
    assert (measure.find_facts("first/last", matrix="outer")[0].spread or 0) > 0


def test_what_is_a_mean_over_batches_has_their_deviation(float64: None) -> None:
    model, runs = stack(), passes(5)
    measure = examined(model, runs, 5, "stream-norms")
    alone = [examined(model, [run], 1, "stream-norms") for run in runs]
    ends = [line(each, quantity="branch")[-1] for each in alone]
    (series,) = measure.select(quantity="branch")
    assert (series.y[-1], series.spread[-1]) == (pytest.approx(fmean(ends)), pytest.approx(stdev(ends)))


def test_many_batches_share_a_few_parts(float64: None) -> None:
    """Of two batches each: the deviation is still about that of single batches."""
    model, runs = stack(), passes(2 * PARTS)
    found = [examined(model, runs, parts, "stream-norms") for parts in (PARTS, 2 * PARTS)]
    few, all_of_them = (one.select(quantity="branch")[0] for one in found)
    assert few.y == pytest.approx(all_of_them.y)
    assert few.spread == pytest.approx(all_of_them.spread, rel=0.5)


def test_findings_have_the_spread_of_their_values() -> None:
    report = lamina.diagnose(stack(), torch.randn(8, 7, DIM), some_loss)
    assert {each.check for each in report.findings if each.spread is not None} >= {"vanishing", "amplification"}
    (row,) = [each for each in str(report).splitlines() if "first/last" in each and "outer" in each]
    assert "±" in row
    assert all(each.spread is None for each in lamina.diagnose(stack(), [torch.randn(7, DIM)], some_loss).findings)


def test_the_spread_of_a_finding_is_that_of_the_seeds() -> None:
    def make(seed: int) -> lamina.Stack:
        model = stack()
        with torch.no_grad():
            model.layers[0].sublayers[0].outer.weight.mul_(seed)
        return model

    x = torch.randn(8, 7, DIM)
    both = lamina.diagnose(make, x, some_loss, seeds=2).findings
    single = [lamina.diagnose(lambda seed, fixed=fixed: make(fixed), x, some_loss, seeds=1) for fixed in (1, 2)]
    values = [[each.value for each in report.findings if each.check == "amplification"] for report in single]
    (spread,) = [each.spread for each in both if each.check == "amplification"]
    assert spread == pytest.approx(stdev(value for (value,) in values), rel=1e-3)


# Memory


def test_a_record_is_gone_before_the_next_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier: list[weakref.ref[Any]] = []

    def watched(model: nn.Module, run: Any) -> Any:
        assert all(reference() is None for reference in earlier)
        record, notes = record_pass(model, run)
        earlier.extend(weakref.ref(each) for each in (record, record.stacks[0], record.stacks[0].output.value))
        return record, notes

    monkeypatch.setattr(examine, "record_pass", watched)
    gc.disable()  # nothing may wait for it
    try:
        examine_model(stack(), passes(3))
    finally:
        gc.enable()
    assert len(earlier) == 9
