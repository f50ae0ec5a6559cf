"""CTranslate2: the same greedy outputs as Lamina's, for every scheme that it can express."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.errors import UserError
from lamina.interop.auto_models.tokenizer import SOURCE
from lamina.interop.exports.ctranslate2_model import save_ctranslate2, token_names
from support.varied_runs import texts_of, varied_run

pytestmark = pytest.mark.peers
ctranslate2 = pytest.importorskip("ctranslate2", reason="install the extra export")


def greedy(folder: Path, run: Any, texts: list[str], longest: int) -> list[str]:
    source, target = run.task.store.tokenizer("source"), run.task.store.tokenizer("target")
    names = token_names(source, SOURCE)
    numbers = {name: at for at, name in enumerate(token_names(target, SOURCE))}
    translator = ctranslate2.Translator(str(folder), inter_threads=1, intra_threads=1)
    given = [[names[token] for token in source.encode(text)] for text in texts]
    found = translator.translate_batch(given, beam_size=1, max_decoding_length=longest, min_decoding_length=0)
    return [target.decode(numbers[name] for name in each.hypotheses[0]) for each in found]


@pytest.mark.parametrize(
    "options",
    [
        {"residual": "post-ln"},
        {"residual": "pre-ln", "positions": "learned", "max_length": 200},
        {"residual": "admin", "shared_embeddings": "all"},
        {"residual": "deep-norm", "num_layers": [3, 2]},
        {"residual": ["deep-norm", "admin"], "activation": "gelu"},
        {"residual": "post-ln", "activation": "silu", "output_bias": True},
        {"residual": "pre-ln", "activation": "gelu-tanh"},
        {"residual": "pre-ln", "activation": "swiglu", "norm": {"kind": "rms"}, "bias": False},
    ],
)
def test_greedy_outputs(options: dict[str, Any], stores: Path, tmp_path: Path) -> None:
    run = varied_run("translation", stores, **options)
    save_ctranslate2(run, tmp_path)
    texts = texts_of(run)
    expected = run.generate(texts, beam=1, max_length=12)
    assert greedy(tmp_path, run, texts, 12) == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (
            "translation",
            {"residual": "resi-dual"},
            "cannot express the residual scheme resi-dual, only pre-ln, post-ln",
        ),
        ("translation", {"residual": ["pre-ln", "post-ln"]}, "cannot express pre-ln in one stack and another"),
        ("translation", {"positions": "rotary"}, "positions are rotary; use --to hf"),
        ("language-modelling", {}, "it is no encoder-decoder for text"),
    ],
)
def test_what_it_cannot_express(task: str, options: dict[str, Any], message: str, stores: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        save_ctranslate2(varied_run(task, stores, **options), tmp_path)
