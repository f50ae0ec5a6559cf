"""Whether the output layer and the embedding share their weights, and whether they should.

    W_out is W_in,  or  W_out = W_in in every number

Press and Wolf 2017; Inan et al. 2017. Models of transformers declare it in their config (`tie_word_embeddings`). Two
matrices with the same numbers that are not one parameter were copied, not tied, and part in training. Facts, at the
output layer: `declared`, `tied`, `equal`, each 1 or 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lamina.diagnosis.measurement import Axes, Fact, FactName, Location, Measurement
from lamina.diagnosis.measures.base import Evidence, Measure, NotMeasurable, require

DECLARED, TIED, EQUAL = FactName("declared"), FactName("tied"), FactName("equal")


class WeightTying(Measure):
    title = "Tied embeddings"
    formula = "whether W_out is W_in"
    source = "Press and Wolf 2017"
    look_for = "A model whose config declares tied embeddings should have one matrix for both."
    axes = Axes(x="", y="")
    needs = ("model",)
    first_batch_only = True
    max_seeds = 1
    position = 106

    def take(self, evidence: Evidence) -> Measurement:
        model = require(evidence.model)
        embeddings = {path: each for path, each in model.named_modules() if isinstance(each, nn.Embedding)}
        outputs = {path: each for path, each in model.named_modules() if isinstance(each, nn.Linear)}
        pairs = [
            (path, one.weight, other.weight)
            for path, one in outputs.items()
            for other in embeddings.values()
            if one.weight.shape == other.weight.shape and one.weight.shape[0] > one.weight.shape[1]
        ]
        if not pairs:
            raise NotMeasurable("no output layer has the shape of an embedding")
        path, output, embedding = next((each for each in pairs if each[1] is each[2]), pairs[-1])
        config: Any = getattr(model, "config", None)
        values = {
            DECLARED: float(bool(getattr(config, "tie_word_embeddings", False))),
            TIED: float(output is embedding),
            EQUAL: float(output is embedding or torch.equal(output, embedding)),
        }
        location = Location(module=path)
        return self.measurement(facts=[Fact(name=name, location=location, value=each) for name, each in values.items()])
