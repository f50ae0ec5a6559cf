"""The two models of the fault grid, with their data: a decoder in plain torch, and a GPT-2 of transformers.

Both are small language models with pre-norm layers, on sentences of a random language in which every word has a few
likely successors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

WORDS, WIDTH, LAYERS, HEADS, LENGTH, SENTENCES = 256, 64, 6, 2, 32, 16
LEARNING_RATE = 1e-3
SUCCESSORS = 4
LAYER = 2
"""The layer, from 0, that most faults are injected into."""


class PlainAttention(nn.Module):
    """Causal self-attention."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.causal = heads, True
        self.scale = (dim // heads) ** -0.5
        self.query, self.key, self.value, self.output = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (self.split(each(x)) for each in (self.query, self.key, self.value))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal, scale=self.scale)
        return self.output(attended.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (sentences, heads, length, head_dim)


class PlainLayer(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = PlainAttention(dim, heads)
        self.inner, self.outer = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.outer(F.relu(self.inner(self.norm2(x)))))


class PostNormLayer(PlainLayer):
    """Post-norm attention and feed-forward."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.outer(F.relu(self.inner(x)))))


class PlainDecoder(nn.Module):
    """A language model as one finds it in tutorials."""

    def __init__(self, layer: type[PlainLayer] = PlainLayer, num_layers: int = LAYERS) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(WORDS, WIDTH, padding_idx=0), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(layer(WIDTH, HEADS) for _ in range(num_layers))
        self.norm = nn.LayerNorm(WIDTH) if layer is PlainLayer else nn.Identity()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        for each in self.modules():
            if isinstance(each, nn.Linear):
                nn.init.normal_(each.weight, std=each.in_features**-0.5)
                if each.bias is not None:
                    nn.init.zeros_(each.bias)
        nn.init.normal_(self.head.weight, std=0.5 * WIDTH**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@dataclass(eq=False)
class Trial:
    """A model with everything that its training needs; a fault changes some of it."""

    model: nn.Module
    layers: nn.ModuleList
    batch: Callable[[int], Any]
    """The batch of a step."""
    loss: Callable[[Any, Any], Tensor]
    make_optimiser: Callable[[nn.Module], Optimizer] = lambda model: AdamW(model.parameters(), lr=LEARNING_RATE)
    warmup: int = 20
    clip: float = 1.0
    names: dict[str, str] = field(default_factory=dict)
    """The paths of modules that faults are injected into: `layer`, `inner`, `norm` …"""

    @property
    def is_torch(self) -> bool:
        return isinstance(self.model, PlainDecoder)


def sentences(seed: int, count: int = SENTENCES) -> Tensor:
    """Sentences of the random language, without padding: (count, LENGTH + 1)."""
    language = torch.Generator().manual_seed(0)
    # Low numbers are frequent, as the words of a language are.
    successors = 1 + torch.rand(WORDS, SUCCESSORS, generator=language).pow(3).mul(WORDS - 1).long()
    generator = torch.Generator().manual_seed(seed + 1)
    words = [torch.randint(1, WORDS, (count,), generator=generator)]
    for _ in range(LENGTH):
        chosen = torch.rand(count, generator=generator).square().mul(SUCCESSORS).long()
        words.append(successors[words[-1], chosen])
    return torch.stack(words, 1)


def plain_batch(seed: int) -> tuple[Tensor]:
    return (sentences(seed)[:, :-1],)


def plain_loss(logits: Tensor, batch: tuple[Tensor]) -> Tensor:
    """The next token; the last one has no target."""
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())


def plain_trial(seed: int = 1) -> Trial:
    torch.manual_seed(seed)
    model = PlainDecoder()
    names = {"layer": "layers.2", "norm": "layers.2.norm1", "inner": "layers.2.inner", "query": "layers.2.attention"}
    names |= {"final": "layers", "head": "head", "embedding": "embedding"}
    return Trial(model, model.layers, plain_batch, plain_loss, names=names)


def gpt2_trial(seed: int = 1) -> Trial:
    """A GPT-2 whose matrices keep the size of what they read."""
    import transformers

    torch.manual_seed(seed)
    sizes = {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": LENGTH}
    rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    given = {"initializer_range": WIDTH**-0.5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    build: Any = transformers.GPT2LMHeadModel
    model = build(transformers.GPT2Config(**(sizes | rates | given)))
    layer = "transformer.h.2"
    names = {"layer": layer, "norm": f"{layer}.ln_1", "inner": f"{layer}.mlp.c_fc", "query": f"{layer}.attn"}
    names |= {"final": "transformer", "head": "lm_head", "embedding": "transformer.wte"}
    return Trial(model, model.transformer.h, gpt2_batch, gpt2_loss, names=names)


def gpt2_batch(seed: int) -> dict[str, Tensor]:
    tokens = sentences(seed)[:, :-1]
    return {"input_ids": tokens, "labels": tokens}


def gpt2_loss(output: Any, batch: Any) -> Tensor:
    return output.loss


def wrap(module: nn.Module, change: Callable[[Callable[..., Any], Any], Any]) -> None:
    """Replace the forward of a module by `change(forward, x)`."""
    forward = module.forward

    def changed(x: Tensor, *arguments: Any, **options: Any) -> Any:
        return change(lambda value: forward(value, *arguments, **options), x)

    module.forward = changed


def faulty_layer(trial: Trial) -> Any:
    return trial.layers[LAYER]


def named_module(trial: Trial, name: str) -> Any:
    return trial.model.get_submodule(trial.names[name])
