"""The options of generation: search method, lengths, batch size."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lamina.options import Options

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]


class GenerateOptions(Options):
    method: Literal["beam", "greedy", "sample", "ctc"] = "beam"
    """The search: beam search, greedy decoding (the most likely token at each step), or sampling. `ctc`, for speech
    recognition with a CTC loss: beam search on the CTC output, ranked with the decoder's scores."""

    beam: Count = 5
    """The number of hypotheses kept at each step of a beam search."""
    nbest: Count = 1
    """The number of outputs per sentence: the best of a beam, or samples."""
    length_penalty: float = 1.0
    """The exponent a of the length penalty lp; hypotheses are ranked by log P(y) / lp(y). 0 for no penalty."""
    length_penalty_kind: Literal["power", "wu"] = "power"
    """The length penalty. `power`: lp(y) = |y|^a, as in fairseq; Xiong et al. 2020 use beam 5 and a = 1.2. `wu`: lp(y)
    = ((5 + |y|) / 6)^a, by Wu et al. 2016; Vaswani et al. 2017 use beam 4 and a = 0.6. |y| includes eos."""
    stop: Literal["full", "likely", "certain"] = "full"
    """When the beam search of a sentence stops: `full` as soon as `beam` hypotheses have ended (fairseq), `likely`
    when the best open hypothesis would not be among the best if it ended now, `certain` when no continuation of it
    can be."""

    ctc_weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The weight λ of the CTC score in method `ctc`: outputs are ranked by λ · ln P_CTC + (1 − λ) · ln P_decoder."""

    min_length: Amount = 0
    """The smallest number of tokens of an output; takes precedence over length_factor and length_margin."""
    length_factor: Annotated[float, Field(ge=0)] = 1.2
    """An output has at most length_factor times the tokens of its source, plus length_margin."""
    length_margin: Amount = 10
    """The tokens that an output may have beyond length_factor times those of its source."""
    max_length: Count | None = None
    """The largest number of tokens of an output; replaces length_factor and length_margin."""
    max_source: Count = 1024
    """The largest number of tokens of a source; longer ones are truncated with a warning, prompts at their
    beginning."""
    no_repeat_ngram: Amount = 0
    """The size n of n-grams that may occur only once in an output; 0 for no restriction."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """The temperature of sampling; values below 1 favour likely tokens."""
    top_k: Amount = 0
    """Sample from the k most likely tokens; 0 for all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sample from the smallest set of most likely tokens with at least this total probability."""
    seed: int = 1
    """The seed of sampling. Samples depend on the index of the sentence, not on how sentences are batched."""

    max_tokens: Count = 16384
    """The largest number of tokens of a batch, counting its sources, prefixes and all hypotheses at full length."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.method in ("beam", "ctc") and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} outputs cannot come from a beam of {self.beam}; enlarge beam")
        if self.method == "greedy" and self.nbest > 1:
            raise ValueError(f"nbest {self.nbest}: greedy decoding has one output; use beam or sample")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is larger than max_length {self.max_length}")
        return self

    @property
    def width(self) -> int:
        """The number of open hypotheses per sentence."""
        return {"beam": self.beam, "greedy": 1, "sample": self.nbest, "ctc": self.beam}[self.method]
