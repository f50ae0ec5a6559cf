"""Watching a run of Hugging Face's Trainer: warnings while it trains, and a page at the end.

Needs the extra `transformers` and accelerate, which the Trainer requires.
"""

from __future__ import annotations

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import lamina


class Counting(Dataset[dict[str, torch.Tensor]]):
    """Sequences in which every token is the one before it plus one."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (index + torch.arange(12)) % 50
        return {"input_ids": tokens, "labels": tokens}


if __name__ == "__main__":
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 16}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, bos_token_id=0, eos_token_id=0, **sizes))
    watching = lamina.LaminaCallback(every=5)
    arguments = TrainingArguments(
        "trained",
        max_steps=20,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=10,
        save_strategy="no",
    )
    Trainer(model, arguments, train_dataset=Counting(), callbacks=[watching]).train()
    assert watching.watch is not None
    last = watching.watch.history[-1]
    print(f"step {last.step}:", last.summary())  # the whole report is trained/diagnosis/watch.html
