"""Every choice that makes a model, in one place."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from lamina import residual as schemes
from lamina.model.feed_forward import Activation
from lamina.model.initialisation import Initialisation
from lamina.options import Affects, Options
from lamina.residual.norm import NormOptions

Positive = Annotated[int, Field(ge=1)]
Probability = Annotated[float, Field(ge=0, lt=1)]


class ModelOptions(Options):
    kind: Literal["encoder-decoder", "decoder", "encoder"] = "encoder-decoder"
    """Two stacks, a causal one (language model), or a bidirectional one (BERT)."""
    head: Literal["words", "masked-words", "classes", "none"] = "words"
    """What stands on top: scores over the vocabulary, BERT's masked-word head, scores over classes, or nothing."""
    num_classes: Positive = 2
    """How many classes the head `classes` tells apart."""

    residual: str | tuple[str, str] = schemes.DEFAULT
    """The residual scheme, or one for the encoder and one for the decoder; `lamina schemes` lists them."""
    residual_options: dict[str, Any] | tuple[dict[str, Any], dict[str, Any]] = {}
    """The scheme's own options, or a pair as for `residual`."""
    norm: NormOptions = NormOptions()
    """The norm that the scheme places."""

    num_layers: Positive | tuple[Positive, Positive] = 6
    """Layers of each stack, or encoder and decoder layers."""
    model_dim: Positive = 512
    """The width of the stream."""
    feed_forward_dim: Positive = 2048
    """The inner width of the feed-forward sub-layers."""
    num_heads: Positive = 8
    """Attention heads; must divide `model_dim`."""
    num_kv_heads: Positive | None = None
    """Key-value heads that the heads share; as many as heads by default."""
    activation: Activation = "relu"
    """The feed-forward function; `linear` leaves a single matrix, as in ResiDual's analysis."""
    bias: bool = True
    """Whether the matrices of the sub-layers have biases."""
    attention_output: bool = True
    """Whether attention ends in an output matrix; Xiong's theory has none."""

    vocab_size: Positive | tuple[Positive, Positive] = 10000
    """Number of words, or of source and target words."""
    padding_index: Annotated[int, Field(ge=0)] = 0
    """The id that pads; its embedding is zero."""
    shared_embeddings: Literal["all", "decoder", "none"] = "all"
    """One table for source, target and output; one for target and output; or one each."""
    scale_embeddings: bool = True
    """Multiply embeddings by √model_dim."""
    embedding_norm: bool = False
    """Normalise the stack's input, as BERT does."""
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    """How a token's place is told."""
    max_length: Positive = 1024
    """The longest sequence that learned positions cover."""
    num_segments: Annotated[int, Field(ge=0)] = 0
    """Learned embeddings for the first, second … part of an input, as BERT has."""
    adaptive_cutoffs: tuple[Positive, ...] = ()
    """Ends of the frequency bands of an adaptive input and softmax; none by default."""
    adaptive_factor: Positive = 4
    """How many times narrower each further band is."""

    dropout: Probability = 0.1
    """On the output of every sub-layer."""
    attention_dropout: Probability = 0.0
    """On attention weights."""
    activation_dropout: Probability = 0.0
    """Inside feed-forward sub-layers."""
    embedding_dropout: Probability | None = None
    """On the stack's input; the same as `dropout` by default."""

    init: Initialisation = "xavier"
    """Base initialisation; some schemes insist on their own."""
    checkpoint_layers: Annotated[bool, Affects.ROUNDING] = False
    """Keep only what stands between layers, compute the rest again on the way back: less memory, more time."""

    @field_validator("residual")
    @classmethod
    def _known_schemes(cls, given: str | tuple[str, str]) -> str | tuple[str, str]:
        if isinstance(given, str):
            return schemes.find(given).name
        return schemes.find(given[0]).name, schemes.find(given[1]).name

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        single = self.kind != "encoder-decoder"
        for name in ("residual", "residual_options", "num_layers", "vocab_size"):
            if single and isinstance(getattr(self, name), tuple):
                raise ValueError(f"{name} is a pair, but a model of kind {self.kind!r} has one stack; give one value")
        if self.shared_embeddings == "all" and isinstance(self.vocab_size, tuple) and len(set(self.vocab_size)) > 1:
            raise ValueError("shared_embeddings is 'all', but the vocabularies differ; use 'decoder' or 'none'")
        if self.adaptive_cutoffs and (self.kind != "decoder" or self.head != "words"):
            raise ValueError("adaptive_cutoffs are for language models: kind 'decoder' with head 'words'")
        if self.head != "words" and self.kind == "encoder-decoder":
            raise ValueError("an encoder-decoder predicts words; leave head at 'words'")
        if self.head in ("classes", "masked-words") and self.kind != "encoder":
            raise ValueError(f"head {self.head!r} needs kind 'encoder'")
        if self.padding_index >= min(pair(self.vocab_size)):
            raise ValueError(f"padding_index {self.padding_index} lies outside the vocabulary")
        return self


def pair(value: Any) -> tuple[Any, Any]:
    """A setting for (encoder, decoder), or (source, target)."""
    return value if isinstance(value, tuple) else (value, value)
