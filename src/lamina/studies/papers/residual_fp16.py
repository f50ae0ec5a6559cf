"""The dual stream of ResiDual in half precision: its sum can overflow, and a scale η below 1 cures that.

Xie et al. 2023, section 2.2: LN(η·r) = LN(r), so η changes neither outputs nor gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lamina.formatting import short
from lamina.model.stack import Stack
from lamina.report.tables import Table
from lamina.studies.papers.theory import TwoMatrices, gaussian_stack
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.study import Exhibit, Study, StudyContext, claim
from lamina.studies.verdicts import Verdict, above, all_of, below, within

POWERS_OF_TWO, OTHER = (2.0**-1, 2.0**-4, 2.0**-10), 0.05
BLOCKS, DIM = 48, 64
LARGE = 4096.0
"""The standard deviation of the branches whose sum leaves the range of fp16."""


class ResidualFp16(Study):
    paper = "residual"
    title = "The dual stream in half precision"

    def measure(self, context: StudyContext) -> Iterator[ResultRow]:
        for seed in range(1, context.choose(micro=3, otherwise=10) + 1):
            plain = output_and_gradients(1.0, seed)
            for scale in (*POWERS_OF_TWO, OTHER):
                pairs = zip(plain, output_and_gradients(scale, seed), strict=True)
                largest = max((one - other).abs().max().item() for one, other in pairs)
                yield row("difference", largest, seed, scale=scale)
            full, dual = run_dual(1.0, seed, torch.float32)
            yield row("largest |r| in fp32", dual.abs().max().item(), seed)
            for scale in (1.0, OTHER):
                output, dual = run_dual(scale, seed, torch.float16)
                yield row("overflowed share of r", (~dual.isfinite()).double().mean().item(), seed, scale=scale)
                error = (output - full).abs().nan_to_num(torch.inf).max().item()
                yield row("largest error of the output", error if error < torch.inf else None, seed, scale=scale)

    @claim("R-37", "LN(η r) = LN(r) for any η > 0", paper="exact")
    def scale_is_free(self, results: ResultTable) -> Verdict:
        differences = {scale: results.sample("difference", scale=scale) for scale in (*POWERS_OF_TWO, OTHER)}
        exact = [within(f"η = {scale:g}: difference", differences[scale], 0.0, 0.0) for scale in POWERS_OF_TWO]
        return all_of([*exact, below(f"η = {OTHER}: difference", differences[OTHER], 1e-5)])

    @claim("R-38", "The dual stream can leave the range of fp16, and scaling cures that", paper="said")
    def scaling_cures(self, results: ResultTable) -> Verdict:
        overflowed = {scale: results.sample("overflowed share of r", scale=scale) for scale in (1.0, OTHER)}
        error = results.sample("largest error of the output", scale=OTHER)
        return all_of(
            (
                above("η = 1: overflowed share of r", overflowed[1.0], 0.0),
                within(f"η = {OTHER}: overflowed share of r", overflowed[OTHER], 0.0, 0.0),
                below("distance of its output from fp32", error, 1e-2),
            )
        )

    def exhibits(self, results: ResultTable) -> list[Exhibit]:
        rows = tuple(
            (
                f"{scale:g}",
                short(results.sample("overflowed share of r", scale=scale).mean),
                short(error.mean) if error.values else "not finite",
            )
            for scale in (1.0, OTHER)
            for error in [results.sample("largest error of the output", scale=scale)]
        )
        largest = short(results.sample("largest |r| in fp32").mean)
        caption = (
            f"{BLOCKS} blocks whose branches are N(0, {LARGE:g}²), in fp16: the sum of the branches reaches {largest}, "
            f"and fp16 ends at {torch.finfo(torch.float16).max:g}. The paper has no such table."
        )
        headings = ("η", "share of r that overflowed", "largest error of the output against fp32")
        return [Exhibit("Overflow of the dual stream", caption, tables=[Table("dual stream in fp16", headings, rows)])]


def output_and_gradients(scale: float, seed: int) -> list[Tensor]:
    """The output of a small stack of one seed and the gradients of its weights, in fp32."""
    torch.manual_seed(seed)
    blocks = [[TwoMatrices(DIM)] for _ in range(4)]
    stack = Stack(blocks, model_dim=DIM, residual="resi-dual", init=None, dropout=0.0, dual_scale=scale)
    output = stack(torch.randn(32, DIM))
    target = torch.randn(32, DIM)
    matrices = [each for each in stack.parameters() if each.dim() > 1]
    return [output.detach(), *torch.autograd.grad((output - target).square().mean(), matrices)]


def run_dual(scale: float, seed: int, precision: torch.dtype) -> tuple[Tensor, Tensor]:
    """The output, in fp32, and the dual stream of a stack with large branches, computed in a precision."""
    stack = gaussian_stack("resi-dual", BLOCKS, DIM, deviation=LARGE, dual_scale=scale, dual_precision="stream").to(
        precision
    )
    streams: list[Tensor] = []
    stack.layers[-1].register_forward_hook(lambda _, inputs, state: streams.append(state[1]))
    torch.manual_seed(seed)
    with torch.no_grad():
        output = stack(torch.randn(64, DIM).to(precision))
    return output.float(), streams[0]
