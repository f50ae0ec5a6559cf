"""Lamina's own model, on packed batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lamina import Transformer
from lamina.model.options import ModelOptions
from training_peers import Batch


class Lamina:
    note = ""

    def __init__(self, options: ModelOptions) -> None:
        self.model: Any = Transformer.build(options)

    def prepare(self, batch: Batch) -> dict[str, Any]:
        target = torch.tensor([word for row in batch.targets for word in row])
        if not batch.sources:
            return {"tokens": target, "lengths": batch.target_lengths, "labels": target}
        source = torch.tensor([word for row in batch.sources for word in row])
        lengths = {"source_lengths": batch.source_lengths, "target_lengths": batch.target_lengths}
        return {"source": source, "target": target, "labels": target, **lengths}

    def loss(self, batch: Any) -> Tensor:
        return self.model(**batch).smoothed.mean()


build = Lamina
