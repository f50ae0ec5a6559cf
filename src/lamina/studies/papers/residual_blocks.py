"""The theorems of Xie et al. 2023 on the stacks of their proofs: blocks of one matrix, and blocks of Gaussian branches.

Sub-layer k, from 1, turns x_{k−1} into x_k; the paper calls the same two x_k and x_{k+1}. Sequences have length 1, so
that attention, a mean over positions, keeps the norm as the proofs assume.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from lamina.diagnosis.measures.added_block import AddedBlock
from lamina.diagnosis.measures.base import Evidence, require
from lamina.diagnosis.measures.hidden_change import MEAN_OF_ABSOLUTE
from lamina.diagnosis.measures.reading import stream
from lamina.diagnosis.recording.records import Record, StackRecord, SublayerRecord
from lamina.studies.papers.initial_models import block_gradients
from lamina.studies.papers.theory import gaussian_inputs, gaussian_stack, run_theory, squared_norm, theory_stack
from lamina.studies.result_table import ResultRow, row
from lamina.studies.study import StudyContext

SCHEMES = ("post-ln", "pre-ln", "resi-dual")
DEVIATIONS = (0.5, 1.0, 2.0)
NUMBERS_OF_MATRICES = (4, 8, 16, 24, 32, 48, 64)


def measure_linear_blocks(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """Gradients and norms of stacks of N blocks f(x) = W x."""
    dim, depths = context.choose(micro=(16, (12, 24)), otherwise=(128, (12, 24, 48, 96)))
    inputs = gaussian_inputs(256, 1, dim, seed=seed)
    for scheme in SCHEMES:
        for blocks in depths:
            stack = theory_stack(scheme, blocks // 2, dim, seed=seed, linear=True)
            record = run_theory(stack, inputs, "linear")
            for k, norm in enumerate(block_gradients(stack), start=1):
                yield row("gradient of a block", norm, seed, scheme=scheme, blocks=blocks, block=k, distance=blocks - k)
        if scheme == "pre-ln":
            yield from _changes_of_output(record, seed)


def _changes_of_output(record: StackRecord, seed: int) -> Iterator[ResultRow]:
    """The mean of |y_N − y_{N−1}|, y_N the output of the stack cut off after block N."""
    for k, change in enumerate(changes_of_output(record), start=1):
        yield row("change of the output", change, seed, block=k)


def changes_of_output(record: StackRecord) -> Sequence[float]:
    return AddedBlock().take(Evidence(record=Record(0.0, [record]))).measured[0].y


def measure_sums(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """E‖x + f‖² ÷ d of every block: the mean over the weights of several stacks, in each of which it varies."""
    dim, blocks, draws = context.choose(micro=(32, 6, 2), otherwise=(512, 24, 8))
    for scheme in ("post-ln", "pre-ln"):
        sums = torch.zeros(blocks)
        for draw in range(draws):
            stack = theory_stack(scheme, blocks // 2, dim, seed=draws * seed + draw, linear=True)
            record = run_theory(stack, gaussian_inputs(64, 1, dim, seed=seed))
            sums += torch.stack([_size_of_sum(sublayer) for sublayer in record.sublayers]) / draws
        for k, size in enumerate(sums.tolist(), start=1):
            yield row("squared norm of the sum", size, seed, scheme=scheme, block=k)


def _size_of_sum(sublayer: SublayerRecord) -> Tensor:
    return squared_norm(sublayer.before[0].value + require(sublayer.branch).value).mean()


def measure_products(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """The logarithm of the spectral norm of a product of m matrices I + W, W ~ N(0, 1/d)."""
    dim = context.choose(micro=32, otherwise=256)
    generator = torch.Generator().manual_seed(seed)
    product = identity = torch.eye(dim, dtype=torch.float64)
    for m in range(1, NUMBERS_OF_MATRICES[-1] + 1):
        product = product @ (identity + torch.randn(dim, dim, generator=generator, dtype=torch.float64) / sqrt(dim))
        if m in NUMBERS_OF_MATRICES:
            value = torch.linalg.matrix_norm(product, 2).log().item()
            yield row("ln of the norm of the product", value, seed, matrices=m, root=sqrt(m))


def measure_gaussian_blocks(context: StudyContext, seed: int) -> Iterator[ResultRow]:
    """Changes of the normalised stream by blocks whose branches are independent Gaussian vectors."""
    dim, positions, blocks = context.choose(micro=(32, 64, 6), otherwise=(128, 1024, 48))
    inputs = gaussian_inputs(positions, 1, dim, seed=seed)
    torch.manual_seed(seed)
    for embedding, x in (("none", torch.zeros_like(inputs)), ("Gaussian", inputs)):
        states = _states(run_theory(gaussian_stack("pre-ln", blocks, dim), x))
        start = 0 if embedding == "none" else 1
        for k, (before, after) in enumerate(pairwise(states), start=1):
            if start + k > 1:
                omega = sqrt(2 - 2 * sqrt((start + k - 1) / (start + k)))
                ratio = (after - before).std().item() / omega
                yield row("std of the change ÷ ω", ratio, seed, embedding=embedding, block=k)
    for scheme in ("post-ln", "resi-dual"):
        for deviation in DEVIATIONS:
            record = run_theory(gaussian_stack(scheme, blocks, dim, deviation=deviation), inputs)
            expected = MEAN_OF_ABSOLUTE * sqrt(2 - 2 / sqrt(1 + deviation**2))
            labels = {"scheme": scheme, "deviation": deviation}
            for k, (before, after) in enumerate(pairwise(_states(record)), start=1):
                change = (after - before).abs().mean().item()
                yield row("change ÷ √(2/π) ω", change / expected, seed, block=k, **labels)
            if scheme == "resi-dual":
                for k, change in enumerate(changes_of_output(record), start=1):
                    yield row("change of the output ÷ √(2/π) ω", change / expected, seed, block=k, deviation=deviation)


def _states(record: StackRecord) -> list[Tensor]:
    """The stream before the first block and after each, normalised."""
    return [F.layer_norm(state.value, state.value.shape[-1:], eps=1e-12) for state in stream(record)]
