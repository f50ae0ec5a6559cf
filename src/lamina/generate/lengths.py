"""How long outputs may be, and what their length counts for.

power   lp(y) = |y|^a                   fairseq; Xiong et al. 2020 with a = 1.2
wu      lp(y) = ((5 + |y|) / 6)^a       Wu et al. 2016, equation 14; Vaswani et al. 2017 with a = 0.6
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch

from lamina.generate.options import GenerateOptions
from lamina.model.options import ModelOptions

Length = TypeVar("Length", float, torch.Tensor)


def penalty(length: Length, options: GenerateOptions) -> Length:
    """lp(y) for a hypothesis of `length` tokens, its end included."""
    base = length if options.length_penalty_kind == "power" else (5 + length) / 6
    return base**options.length_penalty


def longest(source_length: int, start_length: int, options: GenerateOptions, model: ModelOptions) -> int:
    """How many tokens an output may have, given its source and how many tokens it starts from."""
    wanted = options.max_length
    if wanted is None:
        by_source = math.ceil(source_length * options.length_factor) + options.length_margin
        wanted = max(1, options.min_length, by_source)
    # The last token of an output is never read, so it needs no position.
    return wanted if model.positions != "learned" else min(wanted, model.max_length - start_length)


def longest_source(options: GenerateOptions, model: ModelOptions, taken: int = 0) -> int:
    """How many tokens of a source are read, where so many of the model's positions are taken already."""
    return options.max_source if model.positions != "learned" else min(options.max_source, model.max_length - taken)
