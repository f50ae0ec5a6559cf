"""Llama: the same logits as transformers', with grouped heads, any rotary base, and tied or separate tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.data.tokenizer import EOS
from lamina.errors import UserError
from lamina.interop.imports.foreign_model import ForeignConfig
from lamina.interop.imports.llama import interleave, read_llama
from support.imported_models import imported, own_ids, save_library_model

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")
BEGIN, END = 1, 2


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "num_key_value_heads": 2},
        {"tie_word_embeddings": True},
    ],
)
def test_the_same_logits(changes: dict[str, Any], tmp_path: Path) -> None:
    model = save_library_model("llama", tmp_path / "llama", **changes)
    run = imported(tmp_path / "llama")
    words = torch.arange(3, 60)
    ids = words[torch.randint(57, (3, 12), generator=torch.Generator().manual_seed(0))]
    # <eos> is read as <s> and predicted as </s>.
    begins = torch.cat([torch.full((3, 1), BEGIN), ids], 1), torch.cat([torch.full((3, 1), EOS), own_ids(run, ids)], 1)
    theirs, ours = model(begins[0]).logits, run.model(begins[1])
    columns = own_ids(run, words[:, None])[:, 0]
    torch.testing.assert_close(ours[..., columns], theirs[..., words], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours[..., EOS], theirs[..., END], atol=1e-4, rtol=1e-4)


def test_interleaving_halves() -> None:
    rows = torch.arange(8).unsqueeze(1)  # two heads of four channels
    assert interleave(rows, 4).squeeze(1).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"rope_scaling": {"rope_type": "llama3"}}, "type 'llama3' cannot be imported"),
        ({"head_dim": 128}, "head_dim = 128"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"hidden_act": "gelu"}, "SwiGLU"),
    ],
)
def test_what_cannot_be_expressed_is_refused(values: dict[str, Any], reason: str, tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "vocab_size": 60}
    with pytest.raises(UserError, match=reason):
        read_llama(tmp_path, ForeignConfig(sizes | values, "config.json"))
