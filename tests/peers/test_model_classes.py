"""A diagnosis of many model classes of transformers: 12 in continuous integration, all of them nightly."""

from __future__ import annotations

from typing import Any

import pytest

import lamina
from lamina.diagnosis.results import Diagnosis
from peers.model_classes import CLASSES, build

pytestmark = pytest.mark.peers

IN_CI = (
    "OPTForCausalLM",
    "MixtralForCausalLM",
    "GptOssForCausalLM",
    "JambaForCausalLM",
    "MambaForCausalLM",
    "GPTNeoXForCausalLM",
    "AlbertForMaskedLM",
    "DebertaForMaskedLM",
    "T5ForConditionalGeneration",
    "NllbMoeForConditionalGeneration",
    "SwinForImageClassification",
    "Wav2Vec2ForSequenceClassification",
)
MEASURED = {"gradient-coverage", "gradient-along-stream", "stream-norms", "hidden-change", "cosine-of-layers"}
MEASURED |= {"module-ranges", "gradient-by-layer"}
KINDS = {
    "MixtralForCausalLM": {"self-attention", "feed-forward"},
    "GptOssForCausalLM": {"self-attention", "feed-forward"},
    "NllbMoeForConditionalGeneration": {"self-attention", "cross-attention", "feed-forward"},
    "OPTForCausalLM": {"self-attention", "feed-forward"},
    "JambaForCausalLM": {"state-space", "self-attention", "feed-forward"},
    "MambaForCausalLM": {"state-space"},
    "GPTNeoXForCausalLM": {"attention and feed-forward"},
    "AlbertForMaskedLM": {"self-attention", "feed-forward"},
}
"""The kinds of sub-layers of models that were once mislabelled."""


def parameters() -> list[Any]:
    return [name if name in IN_CI else pytest.param(name, marks=pytest.mark.nightly) for name in CLASSES]


def kinds_of(diagnosis: Diagnosis) -> set[str | None]:
    return {each.location.sublayer_kind for each in diagnosis["stream-norms"].facts} - {None}


def test_there_are_enough() -> None:
    assert len(CLASSES) >= 75
    assert set(IN_CI) | set(KINDS) <= set(CLASSES)
    assert len(IN_CI) == 12


@pytest.mark.parametrize("name", parameters())
def test_a_model_class_is_measured(name: str, transformers: Any) -> None:
    transformers.utils.logging.set_verbosity_error()
    model, batches = build(transformers, name)
    diagnosis = lamina.diagnose(model, batches).diagnosis
    assert {each.key for each in diagnosis.measurements} >= MEASURED
    assert [each for each in diagnosis.not_measured if "the measure raised" in each.reason] == []
    assert [each.sentence for each in diagnosis.findings if "the check raised" in each.sentence] == []
    assert [
        each.sentence
        for each in diagnosis.findings
        if each.check in ("untrained", "non-finite") and each.severity == "failure"
    ] == []
    assert kinds_of(diagnosis) == KINDS.get(name, kinds_of(diagnosis))
