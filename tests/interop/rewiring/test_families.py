"""The families: where the layers of a model are, and how deep its stacks."""

from __future__ import annotations

import pytest
from torch import nn

from lamina import residual
from lamina.interop.rewiring.families import find_families
from support.library_models import MODELS, library_model_of


@pytest.mark.peers
@pytest.mark.parametrize("name", MODELS)
def test_every_stack_is_found(name: str) -> None:
    pytest.importorskip("transformers", reason="install the extra transformers")
    found = find_families(library_model_of(name))
    parts = [family.part_of for _, family in found]
    assert parts in (["single"], ["encoder", "decoder"])
    assert all(family.scheme is residual.find(MODELS[name][3]) for _, family in found)


def test_other_modules_have_none() -> None:
    assert find_families(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 1)) == []
