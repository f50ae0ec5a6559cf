"""From which number on a verdict is a warning, or foretells failure. Each says where it comes from.

What the papers derive decides only where it was also measured to hold. Three are calibrated on a grid of small runs
(`lamina.studies.calibration`; results in docs/log.md): on the half of it that had no part in setting them, every run
that failed was expected to, and so were two or three that did not. On a harder task they missed half of the failures.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lamina.options import Options

Positive = Annotated[float, Field(gt=0)]


class VerdictOptions(Options):
    vanishing_warning: Positive = 0.3
    """A layer whose gradient is less than this share of the last layer's fades: Liu et al. 2020, figure 3, has only the
    decoders of post-LN below it."""
    vanishing_failure: Positive = 0.1
    """A layer with less than this share hardly learns, and the model is expected to fail. Calibrated."""
    vanished: Positive = 0.01
    """The same while training, in the last stack, for a warning: of 23 small runs that had no part in setting it none
    that trained came below it, and five of the six that failed did."""
    reach_warning: Positive = 40.0
    """How many times the highest rate all weights can move before the gradient of a layer falls to
    `vanishing_failure`: below this, runs on a harder task failed."""
    reach_failure: Positive = 15.0
    """The same, below which training at that rate is expected to fail. Calibrated."""
    shrinking: Positive = 0.97
    """A kind of sub-layer that leaves less than this share of the gradient is named as the place where it is lost."""
    amplification_warning: Positive = 1.0
    """Σβᵢᵢ² ÷ Σ1/i over the sub-layers of a stack: how much an update shakes the output (Liu et al. 2020, Theorem 2),
    relative to branches that all count the same, the most that pre-LN can have (Corollary 1)."""
    amplification_failure: Positive = 1.87
    """The same, from which on a run without a long warm-up is expected to fail. Calibrated."""
    collapse: Positive = 0.6
    """The last third of a stack changes its stream by less than this share of what the first third does: trained pre-LN
    lies below, post-LN and ResiDual above 0.8 (Xie et al. 2023, figure 2)."""
    conditioning_warning: Positive = 300.0
    """κ of Adam's update for 1,024 weights: where Xie et al. 2023 (figure 3) still find it after 20 steps of vanishing
    gradients."""
    conditioning_failure: Positive = 3000.0
    """The same: about what it is without any gradient (3,200, Theorem 3.2)."""
    half_precision: Positive = 65504.0
    """The largest number of half precision."""
    headroom: Annotated[float, Field(ge=1)] = 8.0
    """A stream may grow this many times in training: values above `half_precision` ÷ `headroom` are at risk."""
    peak: Annotated[float, Field(ge=1)] = 6.0
    """The largest value of a stream in standard deviations, where only its norm is known; a Gaussian exceeds six once
    in half a billion."""
