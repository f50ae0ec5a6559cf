"""Another residual scheme in a GPT-2 of Hugging Face, which then trains, generates and saves as before.

Needs the extra `transformers`. The model is built from a config, so that nothing is downloaded.
"""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

import lamina
import lamina.huggingface  # registers rewired models with the Auto classes

STEPS = 30


def train(model: GPT2LMHeadModel) -> float:
    """A few steps on sequences in which every token is the one before it plus one; returns the last loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(STEPS):
        tokens = (step + torch.arange(8)[:, None] + torch.arange(12)) % 50  # (sequences, length)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return loss.item()


if __name__ == "__main__":
    sizes = {"n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 16}
    for scheme in ("pre-ln", "resi-dual", "b2t"):
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=50, bos_token_id=0, eos_token_id=0, **sizes))
        lamina.rewire(model, scheme)  # pre-ln is what GPT-2 has: its weights and outputs stay as they are
        print(f"{scheme:10} loss {train(model):.2f}")
    model.save_pretrained("rewired")
    loaded = AutoModelForCausalLM.from_pretrained("rewired")
    prompt = torch.arange(5)[None]
    settings = {"max_new_tokens": 3, "do_sample": False, "attention_mask": torch.ones_like(prompt), "pad_token_id": 0}
    same = torch.equal(model.eval().generate(prompt, **settings), loaded.generate(prompt, **settings))
    print("the saved model generates the same:", same)
