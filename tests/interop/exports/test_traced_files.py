"""ONNX and torch.export: a greedy loop over the files gives the outputs of `lamina generate --beam 1`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lamina.data.tokenizer import BOS, EOS
from lamina.interop.exports.traced_files import save_onnx, save_torch_export
from support.varied_runs import texts_of, varied_run

pytestmark = pytest.mark.peers
NAMES = [f"{kind}_{layer}" for layer in range(2) for kind in ("keys", "values")]


def greedy(step: Callable[..., Any], start: list[list[int]], tokens: int) -> list[list[int]]:
    """The tokens that the step chooses after each start, one row at a time where these differ in length."""
    rows = len(start)
    past = [np.zeros((rows, 2, 0, 8), np.float32) for _ in NAMES]
    chosen: list[np.ndarray] = []
    given = np.array(start)
    for at in range(given.shape[1] + tokens - 1):
        ids = given[:, at : at + 1] if at < given.shape[1] else chosen[-1]
        logits, *past = step(ids, past)
        if at >= given.shape[1] - 1:
            chosen.append(logits[:, -1].argmax(-1)[:, None])
    found = np.concatenate(chosen, axis=1).tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in found]


def test_onnx(stores: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="install the extra export")
    run = varied_run("translation", stores, residual="resi-dual")
    save_onnx(run, tmp_path)
    encoder, decoder = (runtime.InferenceSession(str(tmp_path / f"{name}.onnx")) for name in ("encoder", "decoder"))
    texts, tokenizer = texts_of(run), run.task.store.tokenizer("source")
    rows = [torch.tensor([*tokenizer.encode(text), EOS]) for text in texts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).numpy()
    mask = (ids != 0).astype(np.int64)
    memory = encoder.run(None, {"input_ids": ids, "attention_mask": mask})
    fixed = {"attention_mask": mask} | {f"memory_{name}": each for name, each in zip(NAMES, memory, strict=True)}

    def step(tokens: np.ndarray, past: list[np.ndarray]) -> Any:
        states = {f"past_{name}": each for name, each in zip(NAMES, past, strict=True)}
        return decoder.run(None, {"input_ids": tokens, **fixed, **states})

    found = greedy(step, [[BOS]] * len(texts), 12)
    expected = run.generate(texts, beam=1, max_length=12)
    assert run.task.store.tokenizer("target").decode_batch(found) == expected
    assert len(set(expected)) > 1


def test_torch_export(stores: Path, tmp_path: Path) -> None:
    run = varied_run("language-modelling", stores, residual="b2t", positions="rotary")
    save_torch_export(run, tmp_path)
    decoder = torch.export.load(tmp_path / "decoder.pt2").module()

    @torch.no_grad()
    def step(tokens: np.ndarray, past: list[np.ndarray]) -> Any:
        states = [torch.from_numpy(each) for each in past]
        return [each.numpy() for each in decoder(input_ids=torch.from_numpy(tokens), past=states)]

    text = texts_of(run)[0][:12]
    ids = [EOS, *run.task.store.tokenizer("text").encode(text)]
    [found] = greedy(step, [ids], 8)
    assert run.task.store.tokenizer("text").decode(found) == run.generate([text], method="greedy", max_length=8)[0]
