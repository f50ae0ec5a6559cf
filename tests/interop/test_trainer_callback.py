"""The watch under Hugging Face's Trainer: a real, tiny run, without network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamina import LaminaCallback
from lamina.diagnosis.results import Diagnosis
from support.small_models import LABELS, SOURCE, TARGET, small_model


class Training:
    """The Trainer's calls in the Trainer's order, with an optimiser wrapped as accelerate wraps it."""

    def __init__(self, callback: LaminaCallback, folder: Path, step: int = 0) -> None:
        torch.manual_seed(0)
        self.callback = callback
        self.model = small_model("pre-ln")
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.state = SimpleNamespace(global_step=step, is_world_process_zero=True)
        self.given: Any = (SimpleNamespace(output_dir=str(folder)), self.state, SimpleNamespace())
        wrapped: Any = SimpleNamespace(optimizer=self.optimizer)
        callback.on_train_begin(*self.given, model=self.model, optimizer=wrapped, lr_scheduler=None)

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.callback.on_step_begin(*self.given, model=self.model)
            self.model(SOURCE, TARGET, labels=LABELS).smoothed.mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.state.global_step += 1


def test_it_watches_from_the_first_step_to_the_last(tmp_path: Path) -> None:
    training = Training(LaminaCallback(every=2), tmp_path / "out")
    training.go_on(4)
    logs: dict[str, Any] = {"loss": 1.0}
    training.callback.on_log(*training.given, logs=logs)
    assert logs["loss"] == 1.0
    assert logs["condition"] > 0
    assert logs["stream_peak/encoder"] > 0
    assert not any(name.startswith(("update/", "stream/")) for name in logs), "a line of a log is short"
    training.callback.on_train_end(*training.given)
    assert Diagnosis.read(tmp_path / "out" / "diagnosis" / "watch.json").stage.step == 4
    page = (tmp_path / "out" / "diagnosis" / "watch.html").read_text()
    assert "watched at 2 steps, last at step 4" in page
    assert "Updates over training" in page
    assert training.callback.watch is not None
    assert training.callback.watch.report()["watched-updates"].measured
    assert not training.optimizer._optimizer_step_pre_hooks


def test_observations_before_a_save_are_there_after_a_resume(tmp_path: Path) -> None:
    first = Training(LaminaCallback(every=2), tmp_path)
    first.go_on(4)
    first.callback.on_save(*first.given)
    first.go_on(2)  # and then it is killed: the sixth step is taken again
    again = Training(LaminaCallback(every=2), tmp_path, step=4)
    again.go_on(4)
    again.callback.on_train_end(*again.given)
    updates = Diagnosis.read(tmp_path / "diagnosis" / "watch.json")["watched-updates"]
    assert updates.measured[0].x == (2, 4, 6, 8)
    anew = Training(LaminaCallback(every=2), tmp_path)
    assert anew.callback.watch is not None
    assert anew.callback.watch.history == [], "training from the start forgets"


def test_it_needs_no_transformers_to_be_imported() -> None:
    code = "import sys; sys.modules['transformers'] = None; import lamina; assert 'torch' not in sys.modules; "
    code += "from lamina import LaminaCallback; LaminaCallback(every=10)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


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

    class Reporter(transformers.TrainerCallback):  # type: ignore[name-defined, misc]
        """Stands before the user's callbacks and reads each log when it is called, as TensorBoard's and W&B's do."""

        def __init__(self) -> None:
            self.read: list[dict[str, Any]] = []

        def on_log(self, arguments: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
            self.read.append(dict(logs))

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

    callback, reporter = LaminaCallback(every=4), Reporter()
    watched, alone = train(tmp_path / "one", [reporter, callback]), train(tmp_path / "other", [])
    assert [each["condition"] > 0 for each in reporter.read[:3]] == [True] * 3, "the values reach the reporters"
    losses = [loss for each in callback.watch.history for loss in each.trace.losses] if callback.watch else []
    assert len(losses) == 12
    logged = [each["loss"] for each in reporter.read[:3]]
    assert [sum(losses[at : at + 4]) / 4 for at in (0, 4, 8)] == pytest.approx(logged, abs=1e-3), "the Trainer's own"
    assert callback.watch is not None
    assert [look.step for look in callback.watch.history] == [4, 8, 12]
    found = Diagnosis.read(tmp_path / "one" / "diagnosis" / "watch.json")
    assert {each.key for each in found.measurements} >= {"watched-updates", "watched-condition", "watched-streams"}
    assert (tmp_path / "one" / "diagnosis" / "watch.html").is_file()
    assert all(torch.equal(watched[key], value) for key, value in alone.items())
