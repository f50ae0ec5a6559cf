"""The models of the papers, by name. `Transformer.from_preset("base", num_layers=(18, 18))` overrides single options.

Parameter counts as in Liu et al. 2020, appendix D, hold with shared embeddings and joint vocabularies of 10,000
(IWSLT), 37,000 (WMT En-De) and about 44,000 (WMT En-Fr) units: 37 M for `iwslt`, 63 M, 107 M and 151 M for `base` with
6, 12 and 18 layers, 262 M for `wmt-en-fr` with 60-12.

The speech models are T-Sm and T-Md of Wang et al. 2020 (fairseq's `s2t_transformer_s` and `_m`) with 12-6 layers, 80
filterbank features and 10,000 units: 30 M and 71 M. Takase et al. 2022 train T-Md with 12-6 (`s2t-m`) and 6-6 layers.
"""

from __future__ import annotations

from typing import Any

DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")
IWSLT: dict[str, Any] = {"model_dim": 512, "feed_forward_dim": 1024, "num_heads": 4, "vocab_size": 10_000}
BASE: dict[str, Any] = {"model_dim": 512, "feed_forward_dim": 2048, "num_heads": 8, "vocab_size": 37_000}
LANGUAGE_MODEL: dict[str, Any] = {
    "kind": "decoder",
    "model_dim": 1024,
    "feed_forward_dim": 4096,
    "num_heads": 8,
    "vocab_size": 267_744,
    "adaptive_cutoffs": (20_000, 60_000),
}
BERT: dict[str, Any] = {
    "kind": "encoder",
    "head": "masked-words",
    "num_layers": 12,
    "model_dim": 768,
    "feed_forward_dim": 3072,
    "num_heads": 12,
    "activation": "gelu",
    "vocab_size": 30_522,
    "positions": "learned",
    "max_length": 512,
    "num_segments": 2,
    "scale_embeddings": False,
    "embedding_norm": True,
    "attention_dropout": 0.1,
    "init": "normal",
}
SPEECH: dict[str, Any] = {
    "num_layers": (12, 6),
    "feed_forward_dim": 2048,
    "vocab_size": 10_000,
    "feature_dim": 80,
    "shared_embeddings": "decoder",
}
S2T_S = SPEECH | {"model_dim": 256, "num_heads": 4} | dict.fromkeys(DROPOUTS, 0.1)
S2T_M = SPEECH | {"model_dim": 512, "num_heads": 8} | dict.fromkeys(DROPOUTS, 0.15)
THEORY: dict[str, Any] = {
    "kind": "encoder",
    "head": "none",
    "model_dim": 512,
    "feed_forward_dim": 512,
    "num_heads": 1,
    "attention_output": False,
    "positions": "none",  # inputs are N(0, I)
    "dropout": 0.0,
    "init": "theory",
}

PRESETS: dict[str, dict[str, Any]] = {
    "iwslt": IWSLT,
    "iwslt-narrow": IWSLT | {"model_dim": 256},  # Xie et al. 2023
    "base": BASE,
    "wmt-en-fr": BASE | {"vocab_size": 44_000},
    "lm": LANGUAGE_MODEL | {"num_layers": 6},
    "lm-16": LANGUAGE_MODEL | {"num_layers": 16},
    "bert-base": BERT,
    "s2t-s": S2T_S,
    "s2t-m": S2T_M,
    "s2t-m-6-6": S2T_M | {"num_layers": 6},
    "theory": THEORY,
    "theory-linear": THEORY | {"activation": "linear"},
} | {
    f"base-{encoder}-{decoder}": BASE | {"num_layers": (encoder, decoder)}
    for encoder, decoder in [
        (8, 8), (10, 10), (12, 12), (14, 14), (18, 18), (36, 36), (50, 50), (60, 12), (100, 100),
    ]
}  # fmt: skip
