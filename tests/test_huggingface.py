"""`import lamina.huggingface` in a program of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.peers
def test_importing_registers() -> None:
    pytest.importorskip("transformers", reason="install the extra transformers")
    code = "import lamina.huggingface; from transformers import AutoConfig; print(AutoConfig.for_model('lamina'))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_without_the_library_one_sentence_says_what_to_install() -> None:
    code = "import sys; sys.modules['transformers'] = None; import lamina.huggingface"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "lamina.huggingface needs transformers" in ran.stderr
    assert "pip install 'lamina[transformers]'" in ran.stderr
