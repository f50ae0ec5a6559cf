"""Figure 2 of Xie et al. 2023: gradients and changes of the hidden state by layer, of new and of trained models."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lamina.diagnosis.measurement import Axes
from lamina.diagnosis.measures.hidden_change import changes
from lamina.diagnosis.recording.own import recording
from lamina.runs.run import Run
from lamina.studies.papers.residual_decoders import SCHEMES
from lamina.studies.papers.scheme_panels import scheme_panel
from lamina.studies.papers.trained_stages import stages_of
from lamina.studies.result_table import ResultRow, ResultTable, row
from lamina.studies.study import Exhibit

STACKS = ("encoder", "decoder")
TRAINED_CHANGE = "change in a trained model"


def measure_trained_changes(run: Run) -> Iterator[ResultRow]:
    """The change of the hidden state at every sub-layer of a run's trained model, on one batch."""
    _, stage = stages_of(run)
    with recording(stage.model) as found, torch.no_grad():
        stage.passes[0](stage.model)
    for stack in found.stacks:
        for block, change in enumerate(changes(stack), start=1):
            yield row(TRAINED_CHANGE, change, stack=stack.name, block=block)


def figure_2(results: ResultTable) -> list[Exhibit]:
    """Parts a and b at initialisation, and part b of trained models."""
    changed = results.where("change", kind="feed-forward")
    return [
        Exhibit(
            "Figure 2 a",
            "Gradient norm of the matrices of each layer, 18-18 models at initialisation.",
            [
                scheme_panel(stack, results, "layer", "gradient of a layer", SCHEMES, stack=stack)
                for stack in STACKS[::-1]
            ],
            Axes(x="layer k", y="gradient norm"),
        ),
        Exhibit(
            "Figure 2 b",
            "Mean of |LN(x_{k+1}) − LN(x_k)| at the feed-forward sub-layer of each layer. The lines of Post-LN and "
            "ResiDual coincide in the encoder.",
            [scheme_panel(stack, changed, "layer", "change", SCHEMES, stack=stack) for stack in STACKS[::-1]],
            Axes(x="layer k", y="mean absolute change"),
        ),
        Exhibit(
            "Figure 2 b, trained models",
            "The same for all sub-layers of 12-12 models after training.",
            [
                scheme_panel(stack, results, "block", TRAINED_CHANGE, ("pre-ln", "resi-dual"), stack=stack)
                for stack in STACKS[::-1]
            ],
            Axes(x="sub-layer k", y="mean absolute change"),
        ),
    ]
