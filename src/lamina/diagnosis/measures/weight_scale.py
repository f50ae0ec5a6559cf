"""The size of every weight matrix relative to 1 ÷ √(number of inputs).

    √mean(W²)·√n,  n the number of inputs of the matrix

With 1 a product keeps the size of its input: Glorot and Bengio 2010, He et al. 2015. Usual initialisations are between
0.05 and 2, residual projections of deep models lower. Embeddings, LoRA and matrices of zeros are left out. Fact of each
matrix: `scale`, at its module.
"""

from __future__ import annotations

from collections import defaultdict

from torch import nn

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement, Series
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require
from lamina.diagnosis.measures.update_size import location_of
from lamina.diagnosis.recording.layers import find_layers
from lamina.diagnosis.recording.matrices import NamedMatrix

SCALE = FactName("scale")


class WeightScale(Measure):
    title = "Scale of the weight matrices"
    formula = "√mean(W²)·√n"
    source = "after Glorot and Bengio 2010; He et al. 2015"
    look_for = "Lines near 1 keep the size of what they read. Far above it branches explode, far below it they vanish."
    axes = Axes(x="layer", y="scale", log_y=True)
    needs = ("model",)
    first_batch_only = True
    position = 103

    def take(self, evidence: Evidence) -> Measurement:
        model = require(evidence.model)
        transposed = {id(each.weight) for each in model.modules() if type(each).__name__ == "Conv1D"}
        lines: dict[Location, dict[int, float]] = defaultdict(dict)
        facts = []
        for each in find_layers(model).matrices:
            value = scale_of(each, transposed=id(each.parameter) in transposed)
            if each.name.layer is None or value is None:
                continue
            kind = each.name.location.model_copy(update={"layer": None})
            lines[kind][each.name.layer + 1] = value
            facts.append(Fact(name=SCALE, location=location_of(each), value=value))
        if not lines:
            raise NotMeasurable("there is no weight matrix inside the layers")
        series = [
            Series(location=kind, x=tuple(sorted(layers)), y=tuple(layers[at] for at in sorted(layers)))
            for kind, layers in lines.items()
        ]
        return self.measurement(series, facts=facts)


def scale_of(matrix: NamedMatrix, *, transposed: bool) -> float | None:
    """√mean(W²)·√n; None for what is no linear map or holds zeros only. Conv1D of GPT-2 has its inputs first."""
    weight: nn.Parameter = matrix.parameter
    if weight.dim() != 2 or min(weight.shape) < 2 or "lora" in matrix.name.kind or matrix.name.kind == "embedding":
        return None
    inputs = weight.shape[0] if transposed else weight.shape[1]
    size = matrix.of(weight.detach()).float().square().mean().sqrt().item()
    return size * inputs**0.5 if size else None
