"""Marian: the same logits as transformers', and pieces as text where there is a vocab.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lamina.data.tokenizer import BOS, EOS
from lamina.errors import UserError
from lamina.interop.imports.foreign_model import ForeignConfig
from lamina.interop.imports.import_run import import_run
from lamina.interop.imports.marian import PIECES, read_marian
from support.imported_models import imported, own_ids, save_library_model

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")
START = {"pad_token_id": 59, "decoder_start_token_id": 59, "eos_token_id": 0, "bos_token_id": 0}


@pytest.mark.parametrize("changes", [{"activation_function": "swish", "scale_embedding": True}, {}])
def test_the_same_logits(changes: dict[str, Any], tmp_path: Path) -> None:
    model = save_library_model("marian", tmp_path / "marian", **START, **changes)
    with torch.no_grad():
        model.final_logits_bias.copy_(torch.randn(1, 60))
    model.save_pretrained(tmp_path / "marian")
    run = imported(tmp_path / "marian")
    words = torch.arange(2, 59)
    drawn = torch.randint(57, (2, 3, 9), generator=torch.Generator().manual_seed(0))
    source, target = words[drawn[0]], words[drawn[1]]
    ends, begins = torch.zeros(3, 1, dtype=torch.long), torch.full((3, 1), 59)
    with torch.no_grad():
        theirs = model(torch.cat([source, ends], 1), decoder_input_ids=torch.cat([begins, target], 1)).logits
        ours = run.model(
            torch.cat([own_ids(run, source), torch.full((3, 1), EOS)], 1),
            torch.cat([torch.full((3, 1), BOS), own_ids(run, target)], 1),
        )
    columns = own_ids(run, words[:, None])[:, 0]
    torch.testing.assert_close(ours[..., columns], theirs[..., words], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours[..., EOS], theirs[..., 0], atol=1e-4, rtol=1e-4)


def test_the_pieces_of_its_vocabulary_are_the_text(tmp_path: Path) -> None:
    save_library_model("marian", tmp_path / "marian", **START)
    pieces = {"</s>": 0, "<unk>": 1, "<pad>": 59} | {f"▁w{number}": number for number in range(2, 59)}
    (tmp_path / "marian" / "vocab.json").write_text(json.dumps(pieces))
    found = import_run(tmp_path / "marian", tmp_path / "run")
    assert PIECES in found.notes
    output = found.run.generate(["▁w7 ▁w12 zebra"], beam=2, max_length=4)[0]
    assert set(output.split()) <= set(pieces)


def test_other_dimensions_of_the_decoder_are_refused(tmp_path: Path) -> None:
    config = ForeignConfig({"vocab_size": 60, "encoder_ffn_dim": 48, "decoder_ffn_dim": 50}, "config.json")
    with pytest.raises(UserError, match="encoder_ffn_dim = 48, but decoder_ffn_dim = 50"):
        read_marian(tmp_path, config)
