"""The watch under Hugging Face's Trainer: a real, tiny run, without network."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina.diagnose.callback import LaminaCallback
from lamina.diagnose.results import Diagnosis
from small_models import LABELS, SOURCE, TARGET, small_model


def test_it_watches_from_the_first_step_to_the_last(tmp_path: Path) -> None:
    """The Trainer's calls in the Trainer's order, with an optimiser wrapped as accelerate wraps it."""
    model = small_model("pre-ln")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    callback = LaminaCallback(every=2)
    arguments, control = SimpleNamespace(output_dir=str(tmp_path / "out")), SimpleNamespace()
    state = SimpleNamespace(global_step=0, is_world_process_zero=True)
    wrapped: Any = SimpleNamespace(optimizer=optimizer)
    callback.on_train_begin(arguments, state, control, model=model, optimizer=wrapped, lr_scheduler=None)
    for _ in range(4):
        callback.on_step_begin(arguments, state, control, model=model)
        model(SOURCE, TARGET, labels=LABELS).smoothed.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    logs: dict[str, Any] = {"loss": 1.0}
    callback.on_log(arguments, state, control, logs=logs)
    assert logs["loss"] == 1.0
    assert logs["condition"] > 0
    assert logs["stream/encoder"] > 0
    assert not any(name.startswith("update/") for name in logs), "a line of a log is short"
    callback.on_train_end(arguments, state, control)
    found = Diagnosis.read(tmp_path / "out" / "diagnosis" / "watch.json")
    assert found.step == 4
    assert not optimizer._optimizer_step_pre_hooks


def test_only_the_first_process_writes_and_strange_names_are_mistakes(tmp_path: Path) -> None:
    callback = LaminaCallback()
    arguments = SimpleNamespace(output_dir=str(tmp_path / "out"))
    callback.on_train_end(arguments, SimpleNamespace(is_world_process_zero=True), None)
    assert not (tmp_path / "out").exists(), "training never began"
    model = small_model("pre-ln")
    optimizer = torch.optim.Adam(model.parameters())
    state = SimpleNamespace(global_step=0, is_world_process_zero=False)
    callback.on_train_begin(arguments, state, None, model=model, optimizer=optimizer)
    callback.on_train_end(arguments, state, None)
    assert not (tmp_path / "out").exists()
    with pytest.raises(AttributeError, match="has no attribute 'of_step'"):
        callback.of_step  # noqa: B018


@pytest.mark.peers
def test_a_real_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")

    def train(folder: Path, callbacks: list[Any]) -> dict[str, Tensor]:
        torch.manual_seed(0)
        config = transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=3, n_head=2)
        model: nn.Module = transformers.GPT2LMHeadModel(config)
        ids = torch.randint(0, 40, (24, 8), generator=torch.Generator().manual_seed(1))
        data = [{"input_ids": row, "labels": row} for row in ids]
        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            per_device_train_batch_size=4,
            max_steps=12,
            logging_steps=4,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            disable_tqdm=True,
        )
        transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=callbacks).train()
        return model.state_dict()

    callback = LaminaCallback(every=4)
    watched, alone = train(tmp_path / "one", [callback]), train(tmp_path / "other", [])
    assert callback.watch is not None
    assert [look.step for look in callback.watch.history] == [4, 8, 12]
    found = Diagnosis.read(tmp_path / "one" / "diagnosis" / "watch.json")
    assert {measure.key for measure in found.measures} >= {"watched-updates", "watched-condition", "watched-streams"}
    assert all(torch.equal(watched[key], value) for key, value in alone.items())
