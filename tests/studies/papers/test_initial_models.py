"""Models at initialisation on batches of the embedded task."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from lamina.studies.papers.initial_models import (
    expected_block_gradients,
    expected_gradients,
    initial_subject,
    record_stacks,
)
from lamina.studies.study import StudyContext


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> StudyContext:
    return StudyContext(Path(tmp_path_factory.mktemp("study")), "micro")


def test_gradients_are_those_of_the_mean_loss_over_batches(context: StudyContext) -> None:
    subject = initial_subject(context, "post-ln", (2, 3))
    found = expected_gradients(subject, seed=1)
    model = subject.build(1)
    (sum(run(model) for run in subject.passes) / len(subject.passes)).backward()  # type: ignore[union-attr]
    layers = {"encoder": range(2), "decoder": range(3)}
    for stack, numbers in layers.items():
        for layer in numbers:
            outer = model.get_submodule(f"{stack}.layers.{layer}.sublayers.{1 if stack == 'encoder' else 2}").outer
            weight = outer.weight if isinstance(outer, torch.nn.Linear) else outer
            assert found[stack, "outer"][layer + 1] == pytest.approx(weight.grad.norm().item(), rel=1e-4)


def test_seeds_build_different_models_without_dropout(context: StudyContext) -> None:
    subject = initial_subject(context, "pre-ln", (1, 1))
    first, second, again = (subject.build(seed) for seed in (1, 2, 1))
    run = subject.passes[0]
    assert run(first).item() == run(again).item() != run(second).item()


def test_blocks_join_the_matrices_of_a_sub_layer(context: StudyContext) -> None:
    subject = initial_subject(context, "post-ln", (2, 1))
    blocks, matrices = expected_block_gradients(subject, seed=1), expected_gradients(subject, seed=1)
    assert {stack: len(norms) for stack, norms in blocks.items()} == {"encoder": 4, "decoder": 3}
    feed_forward = math.hypot(*(matrices["encoder", kind][2] for kind in ("inner", "outer")))
    assert blocks["encoder"][3] == pytest.approx(feed_forward, rel=1e-4)


def test_both_stacks_are_recorded_with_gradients(context: StudyContext) -> None:
    stacks = record_stacks(initial_subject(context, "pre-ln", (1, 2)), seed=1)
    assert {name: len(stack.sublayers) for name, stack in stacks.items()} == {"encoder": 2, "decoder": 6}
    assert all(sublayer.after[0].gradient_norm for stack in stacks.values() for sublayer in stack.sublayers)
