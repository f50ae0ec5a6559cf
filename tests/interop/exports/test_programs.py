"""Programs on padded tensors: the same scores as the model's, before anything is traced."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.errors import UserError
from lamina.interop.exports.programs import programs_of
from lamina.model.transformer import Transformer
from support.small_models import SMALL
from support.varied_runs import varied_run


def test_masked_words(stores: Path) -> None:
    run = varied_run("masked-language-modelling", stores)
    ids, mask = torch.tensor([[5, 9, 8, 6], [5, 7, 6, 0]]), torch.tensor([[1] * 4, [1, 1, 1, 0]])
    with torch.no_grad():
        found = programs_of(run.model, "ONNX")["model"].module(ids, mask, torch.zeros_like(ids))
        expected = run.model(ids)
    # Padded and packed batches are products of different sizes, whose sums are rounded differently.
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)


def test_what_has_no_program() -> None:
    model = Transformer.from_preset("iwslt", **SMALL, kind="decoder", adaptive_cutoffs=[10])
    with pytest.raises(UserError, match="ONNX: an adaptive softmax"):
        programs_of(model, "ONNX")
