"""How text is generated: which search, how long, how much at a time."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lamina.options import Options

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]


class GenerateOptions(Options):
    method: Literal["beam", "greedy", "sample"] = "beam"
    """Beam search, the best next token each time, or a random one."""

    beam: Count = 5
    """Hypotheses that are kept at each step of a beam search."""
    nbest: Count = 1
    """Outputs per sentence: the best of a beam, or so many samples."""
    length_penalty: float = 1.0
    """The exponent a of the length penalty lp: hypotheses compete by log P / lp(y). 0 for none."""
    length_penalty_kind: Literal["power", "wu"] = "power"
    """`power`: lp(y) = |y|^a, as fairseq has it; Xiong et al. 2020 use beam 5 and a = 1.2. `wu`: lp(y) =
    ((5 + |y|) / 6)^a, by Wu et al. 2016; Vaswani et al. 2017 use beam 4 and a = 0.6. |y| counts the end."""
    stop: Literal["full", "likely", "certain"] = "full"
    """When a beam search leaves a sentence: as soon as `beam` hypotheses have ended (fairseq), when the best open one
    would not be among them if it ended now, or when it cannot be, however it goes on."""

    min_length: Amount = 0
    """Tokens an output has at least, whatever the two below say."""
    length_factor: Annotated[float, Field(ge=0)] = 1.2
    """An output may be this many times as long as its source …"""
    length_margin: Amount = 10
    """… and this many tokens longer."""
    max_length: Count | None = None
    """Tokens an output has at most, whatever its source; instead of the two above."""
    max_source: Count = 1024
    """Longer sources are cut to so many tokens, with a warning; of a language model's prompt the end is kept."""
    no_repeat_ngram: Amount = 0
    """No sequence of so many tokens occurs twice in an output; 0 allows it."""

    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Divides the scores before a sample is drawn: below 1 makes likely words likelier."""
    top_k: Amount = 0
    """Draw from so many of the likeliest words; 0 for all."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the smallest set of words that has this probability together."""
    seed: int = 1
    """Decides the samples, each sentence's by its number: batches make no difference."""

    max_tokens: Count = 16384
    """Room of a batch in tokens: what its sources, prefixes and all of their hypotheses may need together."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.method == "beam" and self.nbest > self.beam:
            raise ValueError(f"nbest {self.nbest} outputs cannot come from a beam of {self.beam}; enlarge beam")
        if self.method == "greedy" and self.nbest > 1:
            raise ValueError(f"nbest {self.nbest}: greedy decoding has one output; use beam or sample")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is larger than max_length {self.max_length}")
        return self

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that are open at the same time."""
        return {"beam": self.beam, "greedy": 1, "sample": self.nbest}[self.method]
