"""Hugging Face's Auto classes for Lamina's models: importing this module registers them.

import lamina.huggingface
model = AutoModelForSeq2SeqLM.from_pretrained("folder")     # made by `lamina export RUN --to hf`, or a rewired model
"""

from __future__ import annotations

from lamina.interop.library import require

require("transformers", "lamina.huggingface", "transformers")

from lamina.interop.auto_models.register import register  # noqa: E402  only after the check
from lamina.interop.rewiring.saved import register_rewired  # noqa: E402

register()
register_rewired()
