"""The commonest mistakes in Python: each raises a `UserError` that names the culprit and the way out.

Mistakes on the command line are in `tests/cli/test_mistakes.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina.runs.run import Run

SIZES: dict[str, Any] = {"num_layers": 2, "model_dim": 16, "feed_forward_dim": 32, "num_heads": 2, "vocab_size": 40}
IDS = torch.randint(3, 40, (4, 6), generator=torch.Generator().manual_seed(0))
CONFIG: dict[str, Any] = {"task": "translation", "model": {"num_layers": 2, "model_dim": 16, "num_heads": 2}}


def stack(residual: str = "pre-ln", **options: Any) -> lamina.Stack:
    return lamina.Stack([[nn.Linear(8, 8)] for _ in range(2)], model_dim=8, residual=residual, **options)


def model(**changes: Any) -> Any:
    return lamina.Transformer.from_preset("base", **SIZES | {"kind": "decoder"} | changes)


def optimiser_of(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters())


def diagnose(loss: Callable[[Tensor], Any] | None = None, batch: Any = IDS) -> Any:
    return lamina.diagnose(model(), batch, loss, quick=True)


def watch_twice() -> None:
    watched = model()
    optimiser = optimiser_of(watched)
    with lamina.watch(watched, optimiser), lamina.watch(watched, optimiser):
        pass


MISTAKES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "an unknown scheme": (lambda: stack("pre-lm"), "'pre-lm'", "did you mean 'pre-ln'"),
    "an option of another scheme": (lambda: stack(omega=2), "'omega'", "There are none"),
    "a class for a module": (
        lambda: lamina.Stack([[nn.Linear]], model_dim=8, residual="pre-ln"),
        "Linear is a class",
        "Linear(…)",
    ),
    "modules that are in no layer": (
        lambda: lamina.Stack([nn.Linear(8, 8)], model_dim=8, residual="pre-ln"),  # type: ignore[list-item]
        "stack needs a list",
        "each layer a list",
    ),
    "another width": (lambda: stack()(torch.randn(3, 7)), "7 channels", "8 wide"),
    "ids for vectors": (lambda: stack()(torch.zeros(3, 8, dtype=torch.long)), "int64", "embed ids first"),
    "vectors for ids": (lambda: model()(torch.randn(2, 5)), "float32", "model.stack"),
    "an id outside the vocabulary": (lambda: model()(torch.full((1, 3), 99)), "99", "vocab_size"),
    "a dimension too many": (lambda: model()(IDS[None]), "not 3", "2 (padded)"),
    "lengths of another batch": (lambda: model()(IDS, lengths=[6, 6]), "2 lengths", "(4, 6)"),
    "packed ids without lengths": (lambda: model()(IDS.flatten()), "packed token ids", "need `lengths`"),
    "an unknown preset": (lambda: lamina.Transformer.from_preset("bass"), "'bass'", "did you mean 'base'"),
    "heads that do not divide the width": (lambda: model(num_heads=3), "num_heads 3", "change one of them"),
    "depth 0": (lambda: model(num_layers=0), "num_layers", "at least 1"),
    "a path for a model": (lambda: lamina.diagnose("runs/x", IDS), "str", "a module"),  # type: ignore[arg-type]
    "a loss that is no single number": (lambda: diagnose(lambda y: y.sum(-1)), "shape (1, 6)", "take its mean"),
    "a loss as a float": (lambda: diagnose(lambda y: float(y.sum())), "a float", "single number"),
    "a loss without gradients": (lambda: diagnose(lambda y: y.detach().sum()), "the loss", "gradients enabled"),
    "a batch on another device": (lambda: diagnose(batch=IDS.to("meta")), "the batch on meta", ".to(…)"),
    "no batch": (lambda: diagnose(batch=None), "None", "a tensor, a tuple or a dictionary"),
    "an empty list of batches": (lambda: diagnose(batch=[]), "empty", "at least one batch"),
    "a class for a watched model": (
        lambda: lamina.watch(nn.Linear, optimiser_of(model())),  # type: ignore[arg-type]
        "the class Linear",
        "lamina.watch(model, optimiser)",
    ),
    "model and optimiser exchanged": (
        lambda: lamina.watch(optimiser_of(model()), model()),  # type: ignore[arg-type]
        "a Adam",
        "lamina.watch(model, optimiser)",
    ),
    "the optimiser of another model": (
        lambda: lamina.watch(model(), optimiser_of(model())),
        "no parameter of SingleStack",
        "AdamW(model.parameters(), …)",
    ),
    "a watch inside of another": (watch_twice, "watched already", "close()"),
    "a folder that is no run": (lambda: lamina.load("."), "no config.toml", "lamina train"),
    "an unknown key": (lambda: lamina.train({"modle": {}}), "'modle'", "did you mean 'model'"),
    "an unknown key of a section": (
        lambda: lamina.train({"model": {"residul": "b2t"}}),
        "model.residul",
        "did you mean 'residual'",
    ),
    "an unknown task": (lambda: lamina.train({"task": "translate"}), "'translate'", "did you mean 'translation'"),
    "a config that is not there": (lambda: lamina.train("absent.toml"), "absent.toml", "lamina init"),
    "nothing to compare": (lambda: lamina.compare(CONFIG, []), "no scheme", '["post-ln", "b2t"]'),
    "a name for a list of names": (lambda: lamina.compare(CONFIG, "b2t"), "'b2t'", "['b2t']"),
    "no seeds": (lambda: lamina.compare(CONFIG, ["b2t"], seeds=0), "not 0", "at least 1"),
    "a text for a list of texts": (
        lambda: Run("absent").generate("Guten Morgen!"),
        "a single text",
        "['Guten Morgen!']",
    ),
}
"""By description: the call, the words that name the culprit, and those that name the way out."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, culprit, way_out = MISTAKES[name]
    with pytest.raises(lamina.UserError) as caught:
        call()
    assert culprit in str(caught.value)
    assert way_out in str(caught.value)


@pytest.mark.peers
def test_models_that_cannot_be_rewired() -> None:
    transformers = pytest.importorskip("transformers", reason="install the extra transformers")
    config = transformers.GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=40)
    with pytest.raises(lamina.UserError, match=r"GPT2Model is a class; build the model first: GPT2Model\(config\)"):
        lamina.rewire(transformers.GPT2Model, "b2t")
    with pytest.raises(lamina.UserError, match="Linear is none of the models that can be rewired: Bert, Roberta"):
        lamina.rewire(nn.Linear(2, 2), "b2t")
    rewired = lamina.rewire(transformers.GPT2Model(config), "b2t")
    with pytest.raises(lamina.UserError, match="rewired already; build or load it anew"):
        lamina.rewire(rewired, "post-ln")


def test_a_run_that_has_no_checkpoint(tmp_path: Path) -> None:
    unfinished = {**CONFIG, "train": {"steps": 1, "validate_every": 0, "save_every": 0}}
    run = lamina.train(unfinished, folder=tmp_path / "run", quiet=True)
    for checkpoint in run.folder.list_checkpoints():
        checkpoint.rename(tmp_path / checkpoint.name)
    with pytest.raises(lamina.UserError, match="no checkpoint 'best'; there are: none"):
        lamina.load(tmp_path / "run")
