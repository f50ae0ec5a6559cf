"""ONNX files and files of torch.export, made from the same programs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lamina.data.tokenizer import BOS, EOS
from lamina.files.atomic import write_file
from lamina.interop.auto_models.tokenizer import InputForm, tokenizer_json
from lamina.interop.exports.programs import Program, programs_of
from lamina.interop.library import require
from lamina.model.modes import evaluation_mode
from lamina.model.options import ModelOptions
from lamina.runs.run import Run
from lamina.tasks.generating import GeneratingTask

LONGEST = 1 << 16
"""The largest length that a dimension is declared to have."""


def save_onnx(run: Run, folder: Path) -> list[str]:
    """Write encoder.onnx and decoder.onnx, or model.onnx, with the tokenizers and the ids that generation needs."""
    for library in ("onnx", "onnxscript"):
        require(library, "lamina export --to onnx", "export")
    with _tracing(run):
        for name, program in programs_of(run.model, "ONNX").items():
            made = torch.onnx.export(
                _export(program, run.model.options),
                input_names=list(program.inputs),
                output_names=program.outputs,
                dynamo=True,
                verbose=False,
            )
            assert made is not None
            made.save(str(folder / f"{name}.onnx"))
    _save_tokenizers(run, folder)
    return []


def save_torch_export(run: Run, folder: Path) -> list[str]:
    """Write encoder.pt2 and decoder.pt2, or model.pt2, with the tokenizers and the ids that generation needs."""
    with _tracing(run):
        for name, program in programs_of(run.model, "torch.export").items():
            torch.export.save(_export(program, run.model.options), folder / f"{name}.pt2")
    _save_tokenizers(run, folder)
    return []


@contextmanager
def _tracing(run: Run) -> Iterator[None]:
    with evaluation_mode(run.model), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer, about itself
        yield


def _export(program: Program, options: ModelOptions) -> Any:
    longest = options.max_length if options.positions == "learned" else LONGEST
    sizes = {
        name: torch.export.Dim(name, max=longest - 1 if name == "past_length" else longest)
        for axes in program.axes.values()
        for name in axes.values()
    }
    shapes = {name: {at: sizes[size] for at, size in axes.items()} for name, axes in program.axes.items()}
    return torch.export.export(
        program.module, (), _grouped(program.inputs), dynamic_shapes=_grouped(shapes), strict=False
    )


def _grouped(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a program: tensors of all layers are lists."""
    grouped: dict[str, Any] = {}
    for name, value in values.items():
        if name.startswith(("past_", "memory_")):
            grouped.setdefault(name.partition("_")[0], []).append(value)
        else:
            grouped[name] = value
    return grouped


def _save_tokenizers(run: Run, folder: Path) -> None:
    task, store = run.task, run.task.store
    names = {"tokenizer.json": store.tokenizer()} if not isinstance(task, GeneratingTask) else {}
    if isinstance(task, GeneratingTask):
        source, target = store.tokenizer(task.input_field), store.tokenizer(task.output_field)
        names = {"tokenizer.json": source}
        if source.sha256 != target.sha256:
            names["tokenizer.target.json"] = target
        start = BOS if run.model.options.kind == "encoder-decoder" else EOS
        ids = {"start_token_id": start, "eos_token_id": EOS, "source_ends_with": [EOS] if start == BOS else []}
        write_file(folder / "generation.json", json.dumps(ids).encode())
    for name, tokenizer in names.items():
        write_file(folder / name, tokenizer_json(tokenizer, InputForm()).encode())
