from __future__ import annotations

import pytest
import torch

from lamina.diagnosis.measures.added_block import AddedBlock
from lamina.diagnosis.measures.base import NotMeasurable
from support.recorded import by_hand, line, recorded, some_loss, take, tensor_record
from support.small_models import small_stack


@pytest.mark.parametrize("scheme", ["post-ln", "pre-ln", "resi-dual", "b2t-over-all"])
def test_an_added_block_is_a_longer_stack(scheme: str, float64: None) -> None:
    """The outputs of stacks cut off are those of shorter stacks with the same weights."""
    x = torch.randn(9, 6)
    deep, shallow = small_stack(scheme, 3, per_layer=1), small_stack(scheme, 2, per_layer=1)
    shallow.load_state_dict(deep.state_dict(), strict=False)
    found = take(AddedBlock, recorded(deep, lambda model: some_loss(model(x))))
    change = (deep(x) - shallow(x)).abs().mean().item()
    assert line(found, stack="stack")[-1] == pytest.approx(change, rel=1e-9)


def test_foreign_stacks_cannot_be_cut_off() -> None:
    with pytest.raises(NotMeasurable, match="Lamina's own"):
        take(AddedBlock, by_hand([tensor_record([[1.0]]), tensor_record([[2.0]])]))
