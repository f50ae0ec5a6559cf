"""Imported runs with every command: generate, evaluate, diagnose, export, and as the start of another run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import lamina
from lamina.data.prepare import prepare
from lamina.data.prepare_options import PrepareOptions
from lamina.errors import UserError
from lamina.interop.imports.import_run import import_run
from lamina.run_folder.starting_point import StartingPoint
from support.commands import assert_refused, invoke, printed
from support.imported_models import change_config, save_library_model
from support.plain_fairseq import SIZES

pytestmark = pytest.mark.peers
pytest.importorskip("transformers", reason="install the extra transformers")
TEXT = "3 4 5 6 7 8\n9 10 11 12\n20 21 22 23 24 25 26\n"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2")
    save_library_model("gpt2", folder / "model")
    assert "The run: " in printed("import", str(folder / "model"), "--folder", str(folder / "run"))
    (folder / "text.txt").write_text(TEXT)
    return folder


def test_generate_and_evaluate(gpt2: Path) -> None:
    run, text = str(gpt2 / "run"), str(gpt2 / "text.txt")
    lines = printed("generate", run, "--input", text, "max_length=4", "method=greedy").splitlines()
    assert len(lines) == 3
    assert all(each.isdigit() for line in lines for each in line.split())
    assert "perplexity" in printed("evaluate", run, "--data", text)
    refused = invoke("evaluate", run)
    assert isinstance(refused.exception, UserError)
    assert "an imported model without data of its own; give some: lamina evaluate" in str(refused.exception)


def test_diagnose_on_random_tokens(gpt2: Path) -> None:
    page = gpt2 / "why.html"
    arguments = ["--quick", "--tokens", "64", "--batches", "2", "--output", str(page)]
    printed("diagnose", str(gpt2 / "run"), *arguments)
    assert "the batches are random tokens" in page.read_text()
    assert (gpt2 / "run" / "diagnosis" / "step-00000000.json").is_file()


def test_it_is_listed_summarised_and_exported(gpt2: Path) -> None:
    assert "imported from" in printed("runs", str(gpt2))
    assert lamina.load(gpt2 / "run").summary().state == "finished"
    printed("export", str(gpt2 / "run"), "--to", "hf", "--output", str(gpt2 / "back"))
    printed("report", str(gpt2 / "run"), "--output", str(gpt2 / "report.html"))


def test_training_it_further_needs_a_new_run(gpt2: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="imported model.*start_from"):
        lamina.train(gpt2 / "run", quiet=True)
    options = {"output": str(tmp_path / "store"), "format": "plain", "train": [str(gpt2 / "text.txt")] * 2}
    options |= {"valid": [str(gpt2 / "text.txt")], "tokenizer": {"file": str(gpt2 / "run" / "tokenizer.json")}}
    prepare(PrepareOptions.read(options, where="test"))
    config = tmp_path / "further.toml"
    config.write_text(
        f'extends = "{gpt2 / "run" / "config.toml"}"\nstart_from = "{gpt2 / "run"}"\n'
        f'[data]\nstore = "{tmp_path / "store"}"\n[train]\nsteps = 2\nvalidate_every = 0\n'
        "[schedule]\nwarmup_steps = 1\n"
    )
    run = lamina.train(config, folder=tmp_path / "further", quiet=True)
    assert run.summary().step == 2
    start = StartingPoint.load(tmp_path / "further" / "started_from.json")
    assert start is not None
    assert start.initialised == start.not_used == start.differences == ()


def test_the_function_warns_of_what_is_missing(gpt2: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="there is no tokenizer beside the model"):
        run = lamina.import_model(gpt2 / "model", tmp_path / "run")
    assert torch.equal(run.model.output_table.weight, lamina.load(gpt2 / "run").model.output_table.weight)


def test_an_existing_folder_is_kept(gpt2: Path) -> None:
    with pytest.raises(UserError, match="exists already; choose a new folder"):
        import_run(gpt2 / "model", gpt2)


def test_a_failed_import_leaves_nothing(gpt2: Path, tmp_path: Path) -> None:
    save_library_model("gpt2", tmp_path / "model")
    change_config(tmp_path / "model", n_layer=3)
    with pytest.raises(UserError, match=r"transformer\.h\.2\.ln_1\.weight: missing"):
        import_run(tmp_path / "model", tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "t5"}, "models of type 't5' cannot be imported; these can: bert, fairseq, gpt2, llama, marian"),
        ({"n_head": 5}, "num_heads 5 does not divide model_dim 32"),
        ({"resid_pdrop": "high"}, "dropout"),
        ({"n_embd": 10**6, "n_head": 1}, "the config says"),
        ({"n_embd": 10**9, "n_head": 1}, "the config is not that of a model"),
    ],
)
def test_wrong_configs_are_refused(values: dict[str, object], message: str, gpt2: Path, tmp_path: Path) -> None:
    save_library_model("gpt2", tmp_path / "model")
    change_config(tmp_path / "model", **values)
    with pytest.raises(UserError, match=message):
        import_run(tmp_path / "model", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sources_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a model folder"):
        import_run(tmp_path / "absent", tmp_path / "run")
    with pytest.raises(UserError, match=r"config\.json"):
        import_run(tmp_path, tmp_path / "run")
    torch.save({"model": {}, "args": None}, tmp_path / "checkpoint.pt")
    assert_refused(["import", str(tmp_path / "checkpoint.pt"), "--folder", str(tmp_path / "run")], "--read-pt")
    torch.save({"model": {}, "cfg": {"model": SIZES}}, tmp_path / "checkpoint.pt")
    with pytest.raises(UserError, match="no such dictionary"):
        import_run(tmp_path / "checkpoint.pt", tmp_path / "run", read_pt=True)


def test_pairs_are_for_classifiers(gpt2: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--pairs is for a classifier"):
        import_run(gpt2 / "model", tmp_path / "run", pairs=True)
