"""Model folders of Hugging Face's transformers, as subjects of a diagnosis."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import lamina
from lamina.diagnosis.recording.passes import record_pass
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.subject import Subject
from lamina.errors import UserError
from lamina.interop.hugging_face import is_model_folder, pretrained_subject, restrict_attention
from support.library_models import library_model_of
from support.varied_runs import varied_run


def losses(subject: Subject) -> list[float]:
    model = subject.build(1)
    return [record_pass(model, run)[0].loss for run in subject.passes]


@pytest.fixture
def transformers() -> Any:
    library = pytest.importorskip("transformers")
    library.utils.logging.set_verbosity_error()
    return library


SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def test_a_folder_of_pickles_is_not_opened(tmp_path: Path, transformers: Any) -> None:
    transformers.BertConfig(**SIZES, architectures=["BertModel"]).save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    assert is_model_folder(tmp_path)
    with pytest.raises(UserError, match=r"pickled \(pytorch_model.bin\).*save them as safetensors"):
        pretrained_subject(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "config.json: not the config of a model"),
        ("{}", "config.json: not the config of a model"),
        (json.dumps({"model_type": "bert", "architectures": ["BertForWhatever"]}), "has no model 'BertForWhatever'"),
        (json.dumps({"model_type": "bert", "architectures": ["logging"]}), "has no model 'logging'"),
        (json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}), "not the config of a model"),
    ],
)
def test_files_that_are_not_configs(content: str, message: str, tmp_path: Path, transformers: Any) -> None:
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "own.py").write_text("raise AssertionError('code of the folder was run')")
    with pytest.raises(UserError, match=message):
        pretrained_subject(tmp_path)


class FakeConfig:
    def __init__(self, attention: str | None, **parts: FakeConfig) -> None:
        self._attn_implementation, self.sub_configs = attention, dict.fromkeys([*parts, "absent"])
        vars(self).update(parts)


def test_a_config_chooses_no_attention_but_eager_or_sdpa() -> None:
    text, image = FakeConfig("someone/their-kernel"), FakeConfig("eager")
    config = FakeConfig("flash_attention_2", text_config=text, vision_config=image)
    notes = restrict_attention(config)
    assert [part._attn_implementation for part in (config, text, image)] == [None, None, "eager"]
    assert any("'flash_attention_2'" in note for note in notes)
    assert any("'someone/their-kernel'" in note for note in notes)
    assert restrict_attention(FakeConfig("sdpa")) == restrict_attention(FakeConfig(None)) == []


@pytest.mark.peers
@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_an_attention_named_by_a_config_loads_no_kernel(
    key: str, tmp_path: Path, transformers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a kernel was loaded")

    monkeypatch.setattr(transformers.modeling_utils, "lazy_import_flash_attention", refuse)
    monkeypatch.setattr(transformers.integrations.hub_kernels, "load_and_register_attn_kernel", refuse, raising=False)
    config = transformers.LlamaConfig(**SIZES, architectures=["LlamaForCausalLM"]).to_dict()
    (tmp_path / "config.json").write_text(json.dumps(config | {key: "someone/their-kernel"}))
    subject = pretrained_subject(tmp_path, batches=1, tokens=32)
    assert subject.build(1).config._attn_implementation in ("eager", "sdpa")
    assert any("someone/their-kernel" in note for note in subject.notes)


@pytest.mark.peers
def test_a_folder_with_weights_is_diagnosed_with_its_weights(tmp_path: Path, transformers: Any) -> None:
    model = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))
    model.save_pretrained(tmp_path)
    subject = pretrained_subject(tmp_path, batches=3, tokens=64)
    assert subject.factory is None
    assert len(losses(subject)) == 3
    assert torch.equal(
        subject.build(1).bert.encoder.layer[0].output.dense.weight, model.bert.encoder.layer[0].output.dense.weight
    )
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(UserError, match="could not be loaded"):
        pretrained_subject(tmp_path)


def diagnosed_by_command(folder: Path) -> Diagnosis:
    """The diagnosis of a folder by a new process, in which nothing has registered Lamina's classes."""
    file = folder / "why.json"
    command = [sys.executable, "-m", "lamina", "diagnose", str(folder), "--quick", "--output", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return Diagnosis.model_validate_json(file.read_bytes())


@pytest.mark.peers
def test_a_rewired_folder_is_diagnosed(tmp_path: Path, transformers: Any) -> None:
    lamina.rewire(library_model_of("gpt2"), "post-ln").save_pretrained(tmp_path)
    diagnosis = diagnosed_by_command(tmp_path)
    assert "RewiredGPT2LMHeadModel" in diagnosis.model
    assert diagnosis.facts.placements == {"transformer": "post"}  # GPT-2's own is pre


@pytest.mark.peers
def test_an_exported_folder_is_diagnosed(stores: Path, tmp_path: Path, transformers: Any) -> None:
    from lamina.interop.auto_models.folder import save_run  # needs transformers

    save_run(varied_run("language-modelling", stores, residual="resi-dual"), tmp_path)
    diagnosis = diagnosed_by_command(tmp_path)
    assert "LaminaForCausalLM" in diagnosis.model


@pytest.mark.peers
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("BertForMaskedLM", SIZES),
        ("BertModel", SIZES),
        ("GPT2LMHeadModel", {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2}),
        ("LlamaForCausalLM", SIZES),
        ("ViTForImageClassification", {**SIZES, "image_size": 8, "patch_size": 4, "num_labels": 3}),
        ("MarianMTModel", {"vocab_size": 50, "d_model": 16, "pad_token_id": 0, "decoder_start_token_id": 0}),
        ("WhisperForConditionalGeneration", {"vocab_size": 50, "d_model": 16, "max_source_positions": 10}),
    ],
)
def test_a_config_alone_is_diagnosed_at_initialisation(
    kind: str, options: dict[str, Any], tmp_path: Path, transformers: Any
) -> None:
    paired = {
        f"{stack}_{name}": size
        for stack in ("encoder", "decoder")
        for name, size in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 32))
    }
    words = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    options = options | (paired | words if "d_model" in options else {})
    model_class = getattr(transformers, kind)
    model_class.config_class(**options, architectures=[kind]).save_pretrained(tmp_path)
    subject = pretrained_subject(tmp_path, batches=2, tokens=32)
    assert subject.model is None
    record, _ = record_pass(subject.build(1), subject.passes[0])
    assert {stack.num_layers for stack in record.stacks} == {2}
    assert subject.factory is not None
    deeper, _ = record_pass(subject.factory(1, 3), subject.passes[0])
    assert {stack.num_layers for stack in deeper.stacks} == {3}
