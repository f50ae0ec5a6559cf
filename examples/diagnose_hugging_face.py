"""Is anything wrong with a Hugging Face model, before it trains? A healthy one, and one with a common mistake.

Needs the extra `transformers`. The model is built from a config, so that nothing is downloaded; a pretrained one is
diagnosed in the same way, or from the command line: `lamina diagnose path/to/folder`.
"""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import lamina


def build(seed: int) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    sizes = {"n_embd": 32, "n_layer": 6, "n_head": 4, "n_positions": 16}
    return GPT2LMHeadModel(GPT2Config(vocab_size=100, bos_token_id=0, eos_token_id=0, **sizes))


def show(name: str, batch: dict[str, torch.Tensor]) -> None:
    # A function of a seed gives the spread over seeds; a model gives the spread over batches.
    report = lamina.diagnose(build, batch, seeds=2, learning_rate=1e-3, name=name)
    problems = [each for each in report.findings if each.severity in ("warning", "failure")]
    print(f"{name}: {len(problems)} problems")
    for finding in problems:
        print(f"  {finding.severity}: {finding.sentence}")
    report.save(f"{name}.html")  # all measurements with figures, and what to do


if __name__ == "__main__":
    torch.manual_seed(0)
    tokens = torch.randint(0, 100, (8, 16))
    show("labels as the model expects them", {"input_ids": tokens, "labels": tokens})
    # The model shifts the labels itself: with shifted labels it learns to skip a token.
    show("labels shifted twice", {"input_ids": tokens, "labels": tokens.roll(-1, dims=1)})
