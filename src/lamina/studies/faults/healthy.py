"""Healthy stock models at their initialisation, of which the diagnosis should find nothing.

    python -m lamina.studies.faults.healthy

The first eight have the sizes of their papers, the others the width of a small model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lamina.diagnosis.examine import examine
from lamina.diagnosis.results import Finding
from lamina.diagnosis.subject import subject_of
from lamina.studies.faults.fault_table import write_outcomes
from lamina.studies.faults.grid import NO_FAULT, FaultOutcome, worst_values

LENGTH, SEQUENCES, LEARNING_RATE, WARMUP = 32, 4, 3e-4, 2000
WIDE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
SMALL = {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 1024}
SMALL |= {"vocab_size": 8000}
GPT = {"n_embd": 256, "n_layer": 6, "n_head": 4, "vocab_size": 8000, "rotary_dim": 64}
GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 64}
PAIRED = {"vocab_size": 8000, "d_model": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PAIRED |= {"decoder_start_token_id": 1, "forced_eos_token_id": 2}
PAIRED |= {
    f"{stack}_{name}": size for stack in ("encoder", "decoder") for name, size in (("layers", 4), ("ffn_dim", 1024))
}
PAIRED |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}

STOCK: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-2 small": ("GPT2LMHeadModel", {}),
    "BERT-base": ("BertForMaskedLM", {}),
    "Llama, 12 layers of width 768": ("LlamaForCausalLM", WIDE | {"intermediate_size": 2048}),
    "NeoX, 12 layers of width 768": ("GPTNeoXForCausalLM", WIDE | {"intermediate_size": 3072}),
    "T5 6-6": ("T5ForConditionalGeneration", {"num_layers": 6, "decoder_start_token_id": 0}),
    "ViT-base": ("ViTForImageClassification", {"num_labels": 1000}),
    "OPT": ("OPTForCausalLM", SMALL | {"ffn_dim": 1024, "word_embed_proj_dim": 256}),
    "Bloom": ("BloomForCausalLM", SMALL | {"n_layer": 6, "n_head": 4}),
    "Mistral": ("MistralForCausalLM", GROUPED),
    "Qwen2": ("Qwen2ForCausalLM", GROUPED),
    "Qwen3": ("Qwen3ForCausalLM", GROUPED),
    "Gemma": ("GemmaForCausalLM", GROUPED),
    "Phi": ("PhiForCausalLM", SMALL),
    "GPT-J": ("GPTJForCausalLM", GPT),
    "RoBERTa": ("RobertaForMaskedLM", SMALL),
    "DistilBERT": ("DistilBertForMaskedLM", {"dim": 256, "hidden_dim": 1024, "n_heads": 4, "vocab_size": 8000}),
    "ELECTRA": ("ElectraForMaskedLM", SMALL | {"embedding_size": 128}),
    "BART": ("BartForConditionalGeneration", PAIRED),
    "Marian": ("MarianMTModel", PAIRED),
    "DeiT": ("DeiTForImageClassification", {each: SMALL[each] for each in SMALL if each != "vocab_size"}),
}
"""Models of transformers: the class, and what differs from its default config."""
TORCH = {f"nn.TransformerEncoder pre-LN, {layers} layers": layers for layers in (6, 12)}
NAMED = (*list(STOCK)[:6], *TORCH)
"""The models of which not even a warning is allowed."""


def build(name: str) -> tuple[nn.Module, Any, Callable[..., Tensor] | None]:
    """The model, a batch, and the loss where the model has none of its own."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    if name in TORCH:
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
        encoder = nn.TransformerEncoder(layer, TORCH[name], norm=nn.LayerNorm(512), enable_nested_tensor=False)
        x = torch.randn(SEQUENCES, LENGTH, 512, generator=generator)
        return encoder, x, lambda output, x: (output - x).square().mean()
    import transformers

    logging: Any = transformers.utils.logging
    logging.set_verbosity_error()
    kind, options = STOCK[name]
    model_class: Any = getattr(transformers, kind)
    model = model_class(model_class.config_class(**options))
    if "Image" in kind:
        size = model.config.image_size
        pixels = torch.randn(2, 3, size, size, generator=generator)
        return model, {"pixel_values": pixels, "labels": torch.tensor([0, 1])}, None
    tokens = torch.randint(4, model.config.vocab_size, (SEQUENCES, LENGTH), generator=generator)
    labels = tokens
    if "Masked" in kind:
        hidden = torch.rand(tokens.shape, generator=generator) < 0.15
        labels = torch.where(hidden, tokens, -100)
        tokens = torch.where(hidden, torch.full_like(tokens, 3), tokens)
    return model.train(), {"input_ids": tokens, "labels": labels}, None


def diagnose(name: str, batches: int = 2) -> list[Finding]:
    """All findings, at a usual learning rate and warm-up."""
    model, batch, loss = build(name)
    subject = subject_of(model, batch, loss, batches=batches, learning_rate=LEARNING_RATE, warmup=WARMUP)
    return list(examine(subject).findings)


def alarms(findings: Sequence[Finding]) -> list[Finding]:
    return [each for each in findings if each.severity in ("warning", "failure")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lamina.studies.faults.healthy", description=__doc__)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--output", type=Path, help="a JSON file for the outcomes, which lamina.studies.faults reads")
    options = parser.parse_args()
    outcomes: list[FaultOutcome] = []
    for name in (*STOCK, *TORCH):
        if options.only in name:
            findings = diagnose(name)
            found = alarms(findings)
            said = "; ".join(f"{each.severity} {each.check}: {each.sentence}" for each in found)
            print(f"{name}: {said or 'nothing'}", flush=True)
            checks = tuple(dict.fromkeys(each.check for each in found))
            outcomes.append(FaultOutcome(NO_FAULT, name, others=checks, values=worst_values(findings)))
    if options.output:
        write_outcomes(outcomes, options.output)


if __name__ == "__main__":
    main()
