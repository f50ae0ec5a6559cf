"""GPT-2: the same logits as transformers', and what Lamina's model cannot express is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lamina.errors import UserError
from lamina.interop.imports.foreign_model import ForeignConfig
from lamina.interop.imports.gpt2 import read_gpt2
from support.imported_models import imported, own_ids, save_library_model

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")
END = 2


@pytest.mark.parametrize("changes", [{}, {"activation_function": "relu", "n_inner": 20}])
def test_the_same_logits(changes: dict[str, object], tmp_path: Path) -> None:
    model = save_library_model("gpt2", tmp_path / "gpt2", **changes)
    run = imported(tmp_path / "gpt2")
    words = torch.tensor([each for each in range(60) if each != END])
    ids = words[torch.randint(59, (3, 12), generator=torch.Generator().manual_seed(0))]
    theirs, ours = model(ids).logits, run.model(own_ids(run, ids))
    columns = own_ids(run, words[:, None])[:, 0]
    torch.testing.assert_close(ours[..., columns], theirs[..., words], atol=1e-4, rtol=1e-4)
    # The probabilities are the same too: the special tokens that GPT-2 lacks have none.
    torch.testing.assert_close(ours.softmax(-1)[..., columns], theirs.softmax(-1)[..., words], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("scale_attn_weights", False, "always scaled"),
        ("scale_attn_by_inverse_layer_idx", True, "alike in all layers"),
        ("add_cross_attention", True, "no cross-attention"),
        ("activation_function", "tanh", "these can: gelu"),
        ("n_layer", "two", "not a whole number"),
        ("eos_token_id", -4, "not the id of a token"),
    ],
)
def test_what_cannot_be_expressed_is_refused(name: str, value: object, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=reason) as caught:
        read_gpt2(tmp_path, ForeignConfig({"vocab_size": 60, "eos_token_id": 2, name: value}, "config.json"))
    assert name in str(caught.value)
