"""CTranslate2 with int8 weights."""

from __future__ import annotations

from functools import partial

from decoding_peers.ctranslate2 import CTranslate2

build = partial(CTranslate2, compute_type="int8")
