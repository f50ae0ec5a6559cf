"""The options of a model.

`ModelChoices` are the keys of a config's [model], chosen by the user. Kind, head, vocabulary and classes follow from
the task and its data; with them, the choices become `ModelOptions`, from which a model is built.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from lamina import residual as schemes
from lamina.errors import unknown
from lamina.model.feed_forward import Activation
from lamina.model.initialisation import Initialisation
from lamina.model.presets import PRESETS
from lamina.options import Added, Affects, Names, Options, OptionsOf, mistake, own_options
from lamina.residual.norm import NormOptions

Positive = Annotated[int, Field(ge=1)]
LayerCount = Annotated[int, Field(ge=1, le=10_000)]  # more layers only fill the memory while they are built
NotNegative = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]
SchemeOptions = SerializeAsAny[Options]

Kind = Literal["encoder-decoder", "decoder", "encoder"]
Head = Literal["words", "masked-words", "classes", "none"]


class ModelChoices(Options):
    """The options of a model that a user chooses, for any task."""

    preset: Annotated[str | None, Affects.NOTHING, Names(lambda: PRESETS)] = None  # its values are among the others
    """The name of a model of a paper, see `lamina.model.presets`; it sets the keys that are not given."""

    residual: Annotated[str | tuple[str, str], Names(schemes.names)] = schemes.DEFAULT
    """The residual scheme, or one for the encoder and one for the decoder; `lamina schemes` lists them."""
    residual_options: Annotated[SchemeOptions | tuple[SchemeOptions, SchemeOptions], OptionsOf("residual")] = Field(
        Options(), validate_default=True
    )
    """The scheme's own options, or a pair: of the encoder's and of the decoder's scheme."""
    norm: NormOptions = NormOptions()
    """The normalisation that the scheme uses."""

    num_layers: LayerCount | tuple[LayerCount, LayerCount] = 6
    """Number of layers of each stack, or a pair: of encoder layers and of decoder layers."""
    model_dim: Positive = 512
    """Dimension of embeddings and hidden states."""
    feed_forward_dim: Positive = 2048
    """Dimension of the hidden layer of the feed-forward sub-layers."""
    num_heads: Positive = 8
    """Number of attention heads; must divide `model_dim`."""
    num_kv_heads: Positive | None = None
    """Number of key and value heads, shared by groups of query heads; as many as `num_heads` by default."""
    activation: Activation = "relu"
    """Activation of the feed-forward sub-layers; `gelu-tanh` is the approximation of GELU that GPT-2 has, and `linear`
    replaces the sub-layers by a single matrix, as in ResiDual's analysis."""
    bias: bool = True
    """Whether the linear layers of the sub-layers have biases."""
    attention_output: bool = True
    """Whether attention has an output projection; the theory of Xiong et al. 2020 has none."""

    shared_embeddings: Literal["auto", "all", "decoder", "none"] = "auto"
    """Which embedding matrices are one: `all` (source, target and output), `decoder` (target and output) or `none`.
    `auto` is `all` with a joint vocabulary and `decoder` with separate ones."""
    output_bias: Annotated[bool, Added()] = False
    """Whether the scores of words have a bias for each word, as in Marian; BERT's masked-word head always has one."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by √model_dim."""
    embedding_norm: bool = False
    """Whether the embeddings are normalised before the first layer, as in BERT."""
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    """Positional encoding."""
    rotary_base: Annotated[float, Field(gt=1), Added()] = 10_000.0
    """The base of the wavelengths of rotary positions: pair i of the d channels of a head turns by base^(-2i/d) from
    one position to the next."""
    max_length: Positive = 1024
    """Length of the longest sequence that learned positions allow."""
    num_segments: NotNegative | None = None
    """Number of segment embeddings, as BERT has for the first and the second sentence. By default 2 for
    `classification` and none for the other tasks."""
    adaptive_cutoffs: tuple[Positive, ...] = ()
    """Limits of the frequency bands of an adaptive input and softmax; without any, embeddings are ordinary ones."""
    adaptive_factor: Positive = 4
    """Factor by which the embedding dimension of each band is smaller than that of the band before."""

    front_end_channels: Annotated[int, Field(ge=2, multiple_of=2)] = 1024
    """Number of channels of the first convolution of a speech model's front end, before its gated linear unit."""

    dropout: Probability = 0.1
    """Dropout on the output of every sub-layer. Every dropout probability is rounded to a multiple of 1/256, or of
    1/65,536 where that would change it by more than 2 %."""
    attention_dropout: Probability = 0.0
    """Dropout on attention weights."""
    activation_dropout: Probability = 0.0
    """Dropout on the hidden layer of feed-forward sub-layers."""
    embedding_dropout: Probability | None = None
    """Dropout on the sum of the embeddings; as `dropout` by default."""

    init: Initialisation = "xavier"
    """Initialisation of the weights; some schemes prescribe their own."""
    checkpoint_layers: Annotated[bool, Affects.ROUNDING] = False
    """Activation checkpointing: store only the input of each layer and compute the rest again in the backward pass."""

    @classmethod
    def add_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Add the values of the preset for keys that are not given."""
        name = values.get("preset")
        if name is None:
            return values
        if not isinstance(name, str) or name not in PRESETS:
            raise mistake(str(unknown("preset", str(name), PRESETS)), "preset", name)
        return {key: value for key, value in PRESETS[name].items() if key in cls.model_fields} | values

    @field_validator("residual")
    @classmethod
    def _known_schemes(cls, given: str | tuple[str, str]) -> str | tuple[str, str]:
        if isinstance(given, str):
            return schemes.find(given).name
        return schemes.find(given[0]).name, schemes.find(given[1]).name

    @field_validator("residual_options", mode="before")
    @classmethod
    def _options_of_the_schemes(cls, given: Any, checked: ValidationInfo) -> Any:
        residual = checked.data.get("residual")
        if residual is None:  # it was invalid, and that is the mistake to report
            return Options()
        given = tuple(given) if isinstance(given, list) else given
        if isinstance(residual, str) and not isinstance(given, tuple):
            return own_options(schemes.find(residual).Options, given)
        if isinstance(given, tuple) and len(given) != 2:
            raise ValueError("give one table, or a list of two: for the encoder's scheme and for the decoder's")
        own = zip(pair(residual), pair(given), strict=True)
        return tuple(own_options(schemes.find(name).Options, options) for name, options in own)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.model_dim % self.num_heads:
            raise ValueError(
                f"num_heads {self.num_heads} does not divide model_dim {self.model_dim}; change one of them"
            )
        if self.num_heads % (self.num_kv_heads or self.num_heads):
            raise ValueError(
                f"num_kv_heads {self.num_kv_heads} does not divide num_heads {self.num_heads}; change one of them"
            )
        if self.positions == "rotary" and self.model_dim // self.num_heads % 2:
            raise ValueError("rotary positions need heads of even dimension: change model_dim or num_heads")
        if list(self.adaptive_cutoffs) != sorted(set(self.adaptive_cutoffs)):
            raise ValueError(f"adaptive_cutoffs {self.adaptive_cutoffs} must rise")
        return self


class ModelOptions(ModelChoices):
    """All options of a model: the user's choices, and those that the task determines."""

    shared_embeddings: Literal["all", "decoder", "none"] = "all"
    """Which embedding matrices are one: `all` (source, target and output), `decoder` (target and output) or `none`."""
    num_segments: NotNegative = 0
    """Number of segment embeddings."""

    kind: Kind = "encoder-decoder"
    """Two stacks, one causal stack (a language model), or one bidirectional stack (BERT)."""
    head: Head = "words"
    """The output layer: scores over the vocabulary, BERT's masked-word head, scores over classes, or none."""
    num_classes: Positive = 2
    """Number of classes of the head `classes`."""
    vocab_size: Positive | tuple[Positive, Positive] = 10000
    """Size of the vocabulary, or a pair: of the source and of the target vocabulary."""
    feature_dim: NotNegative = 0
    """Number of features of a frame, for an encoder that reads speech; 0 for one that reads tokens."""
    ctc: bool = False
    """Whether the encoder has an output layer over the target vocabulary for the CTC loss."""
    padding_index: NotNegative = 0
    """The id of the padding token, whose embedding is zero."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        single = self.kind != "encoder-decoder"
        for name in ("residual", "residual_options", "num_layers", "vocab_size"):
            if single and isinstance(getattr(self, name), tuple):
                raise ValueError(f"{name} is a pair, but a model of kind {self.kind!r} has one stack; give one value")
        if self.shared_embeddings == "all" and isinstance(self.vocab_size, tuple) and len(set(self.vocab_size)) > 1:
            raise ValueError("shared_embeddings is 'all', but the vocabularies differ; use 'decoder' or 'none'")
        if (self.feature_dim or self.ctc) and single:
            raise ValueError(f"feature_dim and ctc are for an encoder-decoder, not for a model of kind {self.kind!r}")
        if self.feature_dim and self.shared_embeddings == "all":
            raise ValueError("shared_embeddings is 'all', but speech has no source embeddings; use 'decoder' or 'none'")
        if self.adaptive_cutoffs and (self.kind != "decoder" or self.head != "words"):
            raise ValueError("adaptive_cutoffs are for language models: kind 'decoder' with head 'words'")
        if self.output_bias and (self.head != "words" or self.adaptive_cutoffs):
            raise ValueError("output_bias is for a head 'words' without adaptive_cutoffs; leave it out")
        if self.head != "words" and self.kind == "encoder-decoder":
            raise ValueError("an encoder-decoder predicts words; leave head at 'words'")
        if self.head in ("classes", "masked-words") and self.kind != "encoder":
            raise ValueError(f"head {self.head!r} needs kind 'encoder'")
        if self.padding_index >= min(pair(self.vocab_size)):
            raise ValueError(f"padding_index {self.padding_index} lies outside the vocabulary")
        return self


DECIDED = tuple(name for name in ModelOptions.model_fields if name not in ModelChoices.model_fields)
"""The options of a model that the task determines."""


def pair(value: Any) -> tuple[Any, Any]:
    """A setting for (encoder, decoder), or (source, target)."""
    return value if isinstance(value, tuple) else (value, value)
