"""The theorems on the stacks of the proofs: values against plain loops."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.studies.papers.residual_blocks import (
    changes_of_output,
    measure_gaussian_blocks,
    measure_linear_blocks,
    measure_products,
    measure_sums,
)
from lamina.studies.papers.theory import gaussian_inputs, run_theory, theory_stack
from lamina.studies.result_table import ResultTable
from lamina.studies.study import StudyContext

CONTEXT = StudyContext(Path("unused"), "micro")


def test_every_block_of_every_depth_has_its_gradient() -> None:
    found = ResultTable(measure_linear_blocks(CONTEXT, 1))
    blocks = found.along("block", "gradient of a block", scheme="post-ln", blocks=12)
    assert list(blocks) == list(range(1, 13))
    stack = theory_stack("post-ln", 6, 16, seed=1, linear=True)
    run_theory(stack, gaussian_inputs(256, 1, 16, seed=1), "linear")
    first = stack.layers[0].sublayers[0].value.grad
    assert blocks[1].mean == pytest.approx(first.norm().item())  # type: ignore[union-attr, operator]
    assert found.sample("gradient of a block", scheme="pre-ln", blocks=12, distance=0).mean > 0


def test_sums_are_near_those_of_the_proof() -> None:
    found = ResultTable(measure_sums(CONTEXT, 1))
    post, pre = (found.along("block", "squared norm of the sum", scheme=scheme) for scheme in ("post-ln", "pre-ln"))
    assert list(post) == list(range(1, 7))
    assert all(size.mean == pytest.approx(2, abs=0.6) for size in post.values())
    assert pre[6].mean > 1.5 * pre[1].mean


def test_the_product_of_matrices_grows() -> None:
    found = ResultTable(measure_products(CONTEXT, 1))
    values = [sample.mean for sample in found.along("matrices", "ln of the norm of the product").values()]
    assert values == sorted(values)
    assert list(found.along("root", "ln of the norm of the product"))[0] == 2.0


def test_changes_of_gaussian_blocks_are_near_the_theorems() -> None:
    found = ResultTable(measure_gaussian_blocks(CONTEXT, 1))
    assert list(found.along("block", "std of the change ÷ ω", embedding="none"))[0] == 2
    for embedding in ("none", "Gaussian"):
        for ratio in found.along("block", "std of the change ÷ ω", embedding=embedding).values():
            assert ratio.mean == pytest.approx(1, abs=0.1)
    for ratio in found.along("block", "change ÷ √(2/π) ω", scheme="resi-dual", deviation=1.0).values():
        assert ratio.mean == pytest.approx(1, abs=0.1)


def test_the_change_of_the_output_is_that_of_one_more_block() -> None:
    inputs = gaussian_inputs(8, 1, 16, seed=1)
    record = run_theory(theory_stack("pre-ln", 2, 16, seed=1, linear=True), inputs)
    shorter = theory_stack("pre-ln", 2, 16, seed=1, linear=True)
    shorter.layers = shorter.layers[:1]
    with torch.no_grad():
        difference = (record.output.value - shorter(inputs)).abs().mean().item()
    last_two = record.sublayers[-1].after[0].value - record.sublayers[-3].after[0].value
    assert last_two.abs().mean() > 0
    assert len(changes_of_output(record)) == 4
    assert difference <= sum(changes_of_output(record)[2:]) + 1e-6
