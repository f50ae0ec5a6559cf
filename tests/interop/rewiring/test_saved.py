"""Rewired models in files: loaded by the Auto classes with Lamina, refused by transformers alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import lamina
from lamina.errors import UserError
from support.library_models import batch_of, library_model_of

pytestmark = pytest.mark.peers
transformers = pytest.importorskip("transformers", reason="install the extra transformers")

import lamina.huggingface  # noqa: E402


@pytest.mark.parametrize(
    ("name", "auto", "scheme"),
    [
        ("bert", "AutoModelForMaskedLM", "resi-dual"),
        ("gpt2", "AutoModelForCausalLM", "hyper-connections"),
        ("marian", "AutoModelForSeq2SeqLM", "admin"),
        ("t5", "AutoModelForSeq2SeqLM", "b2t"),
        ("vit", "AutoModelForImageClassification", "siamese"),
    ],
)
def test_round_trip(name: str, auto: str, scheme: str, tmp_path: Path) -> None:
    model, batch = library_model_of(name), batch_of(name)
    lamina.rewire(model, scheme, batch=batch)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"].startswith("lamina-rewired-")
    loaded = getattr(transformers, auto).from_pretrained(tmp_path)
    assert type(loaded) is type(model)
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)


def test_plain_transformers_refuses_it(tmp_path: Path) -> None:
    lamina.rewire(library_model_of("gpt2"), "resi-dual").save_pretrained(tmp_path)
    code = f"from transformers import AutoModelForCausalLM as A; A.from_pretrained({str(tmp_path)!r})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode
    assert "lamina-rewired-gpt2" in ran.stderr


def test_a_wrong_config_and_missing_weights_are_named(tmp_path: Path) -> None:
    lamina.rewire(library_model_of("gpt2"), "resi-dual").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if "dual_norm" not in name},
        tmp_path / "model.safetensors",
        {"format": "pt"},
    )
    with pytest.raises(UserError, match="2 weights are missing, such as transformer.lamina_residual.dual_norm"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["lamina_rewired"]["residual"] = "resi-duel"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="did you mean 'resi-dual'"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_the_trainer_trains_it(tmp_path: Path) -> None:
    model = lamina.rewire(library_model_of("gpt2"), "resi-dual")
    rows = [{"input_ids": list(range(5, 20)), "labels": list(range(5, 20))}] * 4
    arguments = transformers.TrainingArguments(
        tmp_path, max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True, gradient_checkpointing=True
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=rows)
    trainer.train()
    trainer.save_model(tmp_path / "trained")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained")
    batch = batch_of("gpt2")
    assert torch.equal(loaded(**batch).logits, model.eval()(**batch).logits)
