"""Registration of Lamina's models with the Auto classes of transformers."""

from __future__ import annotations

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForSpeechSeq2Seq,
)

from lamina.interop.auto_models.config import MODEL_TYPE, LaminaConfig
from lamina.interop.auto_models.models import (
    LaminaForCausalLM,
    LaminaForMaskedLM,
    LaminaForSeq2SeqLM,
    LaminaForSequenceClassification,
)
from lamina.interop.auto_models.speech import LaminaForSpeechSeq2Seq

CLASSES = {
    AutoModelForCausalLM: LaminaForCausalLM,
    AutoModelForMaskedLM: LaminaForMaskedLM,
    AutoModelForSeq2SeqLM: LaminaForSeq2SeqLM,
    AutoModelForSequenceClassification: LaminaForSequenceClassification,
    AutoModelForSpeechSeq2Seq: LaminaForSpeechSeq2Seq,
}


def register() -> None:
    """Make `from_pretrained` of the Auto classes read folders of Lamina's models; calling it again changes nothing."""
    AutoConfig.register(MODEL_TYPE, LaminaConfig, exist_ok=True)
    for auto, own in CLASSES.items():
        auto.register(LaminaConfig, own, exist_ok=True)
