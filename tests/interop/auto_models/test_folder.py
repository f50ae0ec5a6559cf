"""The folder of a run in transformers: the Auto classes load it, and nothing is lost on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lamina.errors import UserError
from support.varied_runs import texts_of, varied_run

pytestmark = pytest.mark.peers
transformers = pytest.importorskip("transformers", reason="install the extra transformers")

import lamina.huggingface  # noqa: E402, F401  registers the classes
from lamina.interop.auto_models.folder import library_model, save_run  # noqa: E402


@pytest.mark.parametrize(
    ("task", "auto", "scheme"),
    [
        ("translation", "AutoModelForSeq2SeqLM", "admin"),
        ("language-modelling", "AutoModelForCausalLM", "resi-dual"),
        ("masked-language-modelling", "AutoModelForMaskedLM", "hyper-connections"),
        ("classification", "AutoModelForSequenceClassification", "post-ln"),
        ("speech-recognition", "AutoModelForSpeechSeq2Seq", "pre-ln"),
    ],
)
def test_round_trip(task: str, auto: str, scheme: str, stores: Path, tmp_path: Path) -> None:
    run = varied_run(task, stores, residual=scheme)
    save_run(run, tmp_path)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {each.name for each in tmp_path.iterdir()}
    model = getattr(transformers, auto).from_pretrained(tmp_path)
    assert not model.training
    assert model.transformer.options.model_dump() | {"preset": None} == run.model.options.model_dump()
    own, loaded = run.model.state_dict(), model.transformer.state_dict()
    assert own.keys() == loaded.keys()
    assert all(torch.equal(own[name], loaded[name]) for name in own)
    model.save_pretrained(tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["model_type"] == "lamina"
    assert load_file(tmp_path / "model.safetensors").keys() == load_file(tmp_path / "again/model.safetensors").keys()


def test_two_vocabularies_are_two_tokenizers(stores: Path, tmp_path: Path) -> None:
    run = varied_run("summarisation", stores)
    notes = save_run(run, tmp_path)
    assert any("256 new tokens" in note for note in notes)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in texts_of(run):
        assert tokenizer(text)["input_ids"] == [*run.task.store.tokenizer("source").encode(text), 2]
    assert (tmp_path / "target").exists() == (
        run.task.store.tokenizer("source").sha256 != run.task.store.tokenizer("target").sha256
    )


def test_missing_weights_are_refused(stores: Path, tmp_path: Path) -> None:
    save_run(varied_run("language-modelling", stores, residual="resi-dual"), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["transformer.stack.residual.dual_norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights are missing, such as transformer.stack.residual.dual_norm"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


def test_the_trainer_trains_it(stores: Path, tmp_path: Path) -> None:
    run = varied_run("language-modelling", stores, residual="resi-dual")
    model = library_model(run)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = [{"input_ids": [2, *range(7, 20)], "labels": [2, *range(7, 20)]}] * 4
    arguments = transformers.TrainingArguments(
        tmp_path, max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=True, gradient_checkpointing=True
    )
    trainer = transformers.Trainer(model, arguments, train_dataset=rows)
    trainer.train()
    trainer.save_model(tmp_path / "trained")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained")
    changed = loaded.state_dict()
    assert any(not torch.equal(before[name], changed[name]) for name in before)
