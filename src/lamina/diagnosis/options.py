"""What a run's config says about diagnosis during training."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lamina.diagnosis.thresholds import VerdictOptions
from lamina.diagnosis.watching.band import BandOptions
from lamina.options import Options


class DiagnoseOptions(Options):
    every: Annotated[int, Field(ge=0)] = 0
    """Steps between looks at gradients, updates, Adam's condition and the stream while training; 0 for none."""
    band: BandOptions = BandOptions()
    """When an update counts as unusual."""
    verdicts: VerdictOptions = VerdictOptions()
    """From which numbers on a verdict warns."""
