"""The config of a Lamina model in transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from lamina.model.options import ModelOptions

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")

from lamina.interop.auto_models.config import LaminaConfig  # noqa: E402


def test_options_survive_the_file(tmp_path: Path) -> None:
    options = ModelOptions.read(
        {
            "residual": ("post-ln", "resi-dual"),
            "residual_options": ({}, {"dual_scale": 0.5}),
            "num_layers": (3, 2),
            "vocab_size": (40, 50),
            "shared_embeddings": "decoder",
        },
        where="test",
    )
    LaminaConfig.of(options).save_pretrained(tmp_path)
    read = LaminaConfig.from_pretrained(tmp_path)
    assert read.model_options() == options
    assert (read.vocab_size, read.num_hidden_layers, read.encoder_layers) == (50, 2, 3)
    assert read.is_encoder_decoder


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(UserError, match=r"config.json: lamina.*residual.*did you mean 'post-ln'"):
        LaminaConfig(lamina={"residual": "post-nl"})
