"""The terms of findings and figures, each explained where it first appears on a page."""

from __future__ import annotations

import re

TERMS = {
    r"residual streams?|\bstreams?\b": (
        "residual stream",
        "the vector of each position that layer after layer adds its output to",
    ),
    r"\bsub-layers?\b": ("sub-layer", "one attention or feed-forward part of a layer, with its residual sum"),
    r"\bbranch(es)?\b": ("branch", "what a sub-layer computes, before it is added to the stream"),
    r"\bgradient norm": (
        "gradient norm",
        "the length of the vector of all derivatives of the loss by some weights: how strongly the loss pulls at them",
    ),
    r"\bvanish": ("vanishing", "gradients so small in some layers that these hardly learn"),
    r"Σβᵢᵢ²|\bamplif": (
        "amplification",
        "how much the output changes when all weights change a little; βᵢᵢ is the share of branch i in the stream "
        "just after it was added",
    ),
    r"\bcollaps": ("collapse", "layers whose output hardly differs from their input"),
    r"κ": ("κ", "how strongly Adam's update reacts to a small change of the gradient; large where gradients are tiny"),
    r"\bAdam's v\b|second moment": ("Adam's v", "its running mean of squared gradients, by which updates are divided"),
    r"\bbands?\b": ("band", "the usual range of an update's size, from the steps before"),
    r"\bspikes?\b": ("spike", "a value more than six standard deviations above the mean of the last 128 steps"),
    r"half precision|fp16": ("half precision", "fp16, whose largest number is 65,504; bf16 has no such limit"),
    r"\brelative updates?\b|update ÷ weight": (
        "relative update",
        "the length of an update divided by that of the weights it changes",
    ),
    r"\bJacobian": ("Jacobian", "the matrix of derivatives of a module's outputs by its inputs"),
    r"\bcosines?\b": ("cosine", "1 where two vectors have the same direction, 0 where they have nothing in common"),
    r"\bwarm-up": ("warm-up", "the first steps, in which the learning rate rises to its highest value"),
    r"\bconditioning\b": ("conditioning", "whether small changes of the gradient cause small changes of the update"),
}


class Terms:
    """Explains each term once, in the order in which texts are given."""

    def __init__(self) -> None:
        self._left = {re.compile(pattern, re.IGNORECASE): term for pattern, term in TERMS.items()}

    def explain(self, *texts: str) -> list[tuple[str, str]]:
        """The terms that appear in these texts for the first time, with their explanations."""
        text = " ".join(texts)
        found = [pattern for pattern in self._left if pattern.search(text)]
        return [self._left.pop(pattern) for pattern in found]
