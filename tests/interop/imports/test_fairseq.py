"""fairseq: the same logits as a plain loop over its tensors, from safetensors and from its own pickled checkpoints."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from lamina.data.tokenizer import BOS, EOS, SPECIALS
from lamina.errors import UserError
from lamina.interop.imports.fairseq import read_fairseq, read_fairseq_file
from lamina.interop.imports.foreign_model import ForeignConfig
from support.imported_models import imported
from support.plain_fairseq import SIZES, plain_fairseq, random_tensors

WORDS = 20


def save_fairseq(folder: Path, *, pickled: bool = False, **changes: Any) -> tuple[dict[str, Any], Any]:
    """A random checkpoint with dictionaries; returns its arguments and tensors."""
    arguments = SIZES | changes
    joint = bool(arguments.get("share_all_embeddings"))
    folder.mkdir(parents=True)
    (folder / "dict.de.txt").write_text("".join(f"w{number} {100 - number}\n" for number in range(WORDS)))
    extra = 0 if joint else 3
    (folder / "dict.en.txt").write_text("".join(f"w{number} {100 - number}\n" for number in range(WORDS + extra)))
    tensors = random_tensors(arguments, 4 + WORDS, 4 + WORDS + extra)
    if pickled:
        torch.save({"args": Namespace(**arguments), "model": tensors, "extra_state": {}}, folder / "checkpoint.pt")
    else:
        (folder / "config.json").write_text(json.dumps({"model_type": "fairseq", **arguments}))
        save_file(tensors, folder / "model.safetensors")
    return arguments, tensors


@pytest.mark.parametrize(
    "changes",
    [
        {"share_all_embeddings": True},
        {"share_decoder_input_output_embed": True, "encoder_normalize_before": True, "decoder_normalize_before": True},
        {"decoder_normalize_before": True, "encoder_learned_pos": True, "layernorm_embedding": True},
        {"share_all_embeddings": True, "decoder_learned_pos": True, "no_scale_embedding": True, "pickled": True},
    ],
)
def test_the_same_logits(changes: dict[str, Any], tmp_path: Path) -> None:
    arguments, tensors = save_fairseq(tmp_path / "fairseq", **changes)
    source = tmp_path / "fairseq" / ("checkpoint.pt" if changes.get("pickled") else "")
    run = imported(source, read_pt=bool(changes.get("pickled")))
    drawn = torch.randint(WORDS, (2, 3, 9), generator=torch.Generator().manual_seed(0))
    (theirs_source, theirs_target), (ours_source, ours_target) = drawn + 4, drawn + len(SPECIALS)
    end = torch.full((3, 1), 2)
    theirs = plain_fairseq(tensors, arguments, torch.cat([theirs_source, end], 1), torch.cat([end, theirs_target], 1))
    ours = run.model(
        torch.cat([ours_source, torch.full((3, 1), EOS)], 1), torch.cat([torch.full((3, 1), BOS), ours_target], 1)
    )
    torch.testing.assert_close(ours[..., len(SPECIALS) :], theirs[..., 4:], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours[..., EOS], theirs[..., 2], atol=1e-4, rtol=1e-4)
    assert run.task.store.tokenizer("source").decode(ours_source[0]) == " ".join(f"w{each}" for each in drawn[0, 0])


def test_a_pickle_needs_permission_and_may_hold_values_only(tmp_path: Path) -> None:
    save_fairseq(tmp_path / "fairseq", pickled=True)
    file = tmp_path / "fairseq" / "checkpoint.pt"
    with pytest.raises(UserError, match="--read-pt"):
        read_fairseq_file(file, read_pt=False)
    torch.save({"model": {}, "args": Path}, file)
    with pytest.raises(UserError, match="more than tensors and values"):
        read_fairseq_file(file, read_pt=True)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(UserError, match=r"checkpoint\.pt: cannot be read"):
        read_fairseq_file(file, read_pt=True)
    torch.save({"weights": {}}, file)
    with pytest.raises(UserError, match="no table `model`"):
        read_fairseq_file(file, read_pt=True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arch": "transformer_lm_gpt"}, "architecture 'transformer_lm_gpt' cannot be imported"),
        ({"arch": "fconv"}, "architecture 'fconv' cannot be imported"),
        ({"adaptive_softmax_cutoff": "100,200"}, "adaptive_softmax_cutoff"),
        ({"decoder_attention_heads": 4}, "encoder_attention_heads = 2, but decoder_attention_heads = 4"),
        ({"target_lang": "fr"}, r"dict\.fr\.txt: no such dictionary.*there: dict\.de\.txt, dict\.en\.txt"),
    ],
)
def test_what_cannot_be_expressed_is_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    arguments, _ = save_fairseq(tmp_path / "fairseq", **changes)
    with pytest.raises(UserError, match=reason):
        read_fairseq(tmp_path / "fairseq", ForeignConfig(arguments, "config.json"))


def test_a_damaged_dictionary_names_the_line(tmp_path: Path) -> None:
    arguments, _ = save_fairseq(tmp_path / "fairseq")
    (tmp_path / "fairseq" / "dict.en.txt").write_text("w0 12\nw1\n")
    with pytest.raises(UserError, match=r"dict\.en\.txt: line 2"):
        read_fairseq(tmp_path / "fairseq", ForeignConfig(arguments, "config.json"))
