"""Registration with the Auto classes."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.peers
transformers = pytest.importorskip("transformers", reason="install the extra transformers")

from lamina.interop.auto_models.config import LaminaConfig  # noqa: E402
from lamina.interop.auto_models.register import CLASSES, register  # noqa: E402


def test_every_auto_class_builds_its_own() -> None:
    register()
    register()  # a second time changes nothing
    assert transformers.AutoConfig.for_model("lamina").model_type == "lamina"
    small = {"model_dim": 8, "feed_forward_dim": 8, "num_heads": 2, "num_layers": 1, "vocab_size": 20}
    config = LaminaConfig(lamina={**small, "kind": "decoder", "residual": "post-ln"})
    model = transformers.AutoModelForCausalLM.from_config(config)
    assert type(model) is CLASSES[transformers.AutoModelForCausalLM]
    assert model.transformer.options.residual == "post-ln"
