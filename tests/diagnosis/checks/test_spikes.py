"""The check `spikes`: the loss and the gradient norm of single steps."""

from __future__ import annotations

from lamina.diagnosis.measurement import Fact, Location, Stage
from lamina.diagnosis.results import Finding
from support.measurements import advice, findings, line, measurement


def spikes(*facts: Fact, steps: int = 400, with_loss: bool = True) -> Finding:
    measurements = [measurement("watched-gradient-norm", line(*[1.0] * steps), facts=facts)]
    measurements += [measurement("watched-loss", line(*[1.0] * steps))] if with_loss else []
    (found,) = findings("spikes", measurements)
    return found


def spike(quantity: str, step: int = 77) -> Fact:
    location = Location(stack="h", layer=3, module="h.2.mlp.fc1.weight")
    return Fact(name="spike", quantity=quantity, value=9.0, location=location, stage=Stage(name="step", step=step))


def test_a_spike_of_the_loss_is_a_warning_with_its_module() -> None:
    found = spikes(spike("gradient norm", 12), spike("loss"))
    assert (found.severity, found.location.layer) == ("warning", 3)
    assert "the loss had 1 spike, it was at step 77, 9 standard deviations above" in found.sentence
    assert "h.2.mlp.fc1.weight" in found.sentence
    assert "train.clip_norm = 1" in advice(found)
    assert "optimiser.betas = [0.9, 0.95]" in advice(found)


def test_a_few_spikes_of_the_gradient_alone_are_no_fault() -> None:
    found = spikes(spike("gradient norm"))
    assert found.severity == "fine"
    assert found.sentence.endswith("the loss did not spike")
    assert spikes(*(spike("gradient norm", step) for step in range(100, 140, 10))).severity == "warning"


def test_without_spikes_and_with_too_few_steps() -> None:
    assert spikes().sentence == "the loss and the gradient norm had no spike in the steps up to 400"
    assert spikes(with_loss=False).sentence.startswith("the gradient norm had no spike")
    assert spikes(steps=32).severity == "not measured"


def test_a_jump_of_the_learning_rate_is_named() -> None:
    jump = Fact(name="learning-rate jump", value=10.0, stage=Stage(name="step", step=50))
    assert spikes(jump).sentence.endswith("; the learning rate rose 10-fold at step 50")
    fall = Fact(name="learning-rate jump", value=0.1, stage=Stage(name="step", step=50))
    assert "learning rate" not in spikes(fall).sentence
