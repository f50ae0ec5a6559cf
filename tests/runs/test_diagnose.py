"""Diagnoses of configs and runs: `lamina diagnose`."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lamina.api import diagnose_paths
from lamina.cli import app
from lamina.diagnosis.measurement import Stage
from lamina.diagnosis.measures import measures_that_need
from lamina.diagnosis.results import Diagnosis
from lamina.diagnosis.watching.observation import write_observations
from lamina.errors import UserError
from lamina.report.pages.diagnosis import save_diagnoses
from lamina.run_folder.records import ObservationsFile
from lamina.runs.diagnose import NO_CHECKPOINT, Extent, subjects_of
from lamina.runs.run import Run, read_config
from lamina.training.checkpoint import storage as checkpoint
from support.made_diagnoses import make
from support.trained_runs import trained_run

RECORDED = {"gradient-by-layer", "gradient-along-stream", "gradient-at-norms", "stream-norms", "norm-jacobian"}


RECORDED |= {"hidden-change", "cosine-of-layers", "layer-dependency", "gradient-when-moved", "gradient-coverage"}
RECORDED |= {"module-ranges"}


OF_DEPTH = {"gradient-against-depth", "output-change"}


OF_HISTORY = {each.key for each in measures_that_need("history") if "record" not in each.needs}


OF_TRAINING = OF_HISTORY | {"adam-conditioning"}


TINY = ["model.num_layers=2", "model.model_dim=16", "model.feed_forward_dim=32", "model.num_heads=2"]


SMALL_EXTENT = Extent(seeds=2, batches=2, tokens=60)


TASK_CONFIGS = ["language-modelling", "masked-language-modelling", "classification"]


SMALL = Extent(seeds=1, batches=1, tokens=60, depths=False)


def same(one: Diagnosis, other: Diagnosis) -> bool:
    """Compare as text: empty cells of a map are NaN, which is not equal to itself."""
    return one.model_dump_json() == other.model_dump_json()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small store, a config and a short run."""
    from lamina.data.prepare import prepare
    from lamina.data.sources import chosen_options

    folder = tmp_path_factory.mktemp("diagnosis")
    arguments = [
        "train=['translation:200']",
        "valid=['translation:20']",
        "test=['translation:20']",
        "tokenizer.size=400",
    ]
    prepare(chosen_options("embedded-translation", arguments, {"output": str(folder / "store")}))
    text = f'task = "translation"\n[data]\nstore = "{folder / "store"}"\nmax_tokens = 400\n'
    text += '[model]\npreset = "iwslt"\nnum_layers = 2\nmodel_dim = 16\nfeed_forward_dim = 32\nnum_heads = 2\n'
    (folder / "own.toml").write_text(text + "[train]\nsteps = 4\nsamples = 0\n")
    Run(read_config(folder / "own.toml", []), folder / "run").train(quiet=True)
    return folder


def test_a_config_is_measured_at_its_start(place: Path) -> None:
    (diagnosis,) = diagnose_paths([str(place / "own.toml"), "model.residual=b2t"], SMALL_EXTENT)
    assert (diagnosis.name, diagnosis.schemes, diagnosis.stage) == ("own", ("b2t",), Stage(name="start"))
    assert diagnosis.model == "2-2 encoder-decoder, width 16, b2t"
    assert {each.key for each in diagnosis.measurements} >= RECORDED | OF_DEPTH | {"added-block", "update-size"}


def test_quick_names_what_it_leaves_out(place: Path, tmp_path: Path) -> None:
    page = tmp_path / "why.md"
    few = ["--batches", "1", "--tokens", "60", "--output", str(page)]
    shown = CliRunner().invoke(app, ["diagnose", str(place / "own.toml"), "--quick", *few], env={"COLUMNS": "1000"})
    assert shown.exit_code == 0, shown.output
    (line,) = [each for each in shown.output.splitlines() if "too long for a quick" in each and "not measured" in each]
    for name in ("gradient when moved", "output change", "gradient against depth", "coordinate check"):
        assert name in line
    assert "too long for a quick diagnosis" in page.read_text()


def test_a_config_has_its_own_thresholds(place: Path) -> None:
    (diagnosis,) = diagnose_paths([str(place / "own.toml"), "diagnose.thresholds.vanishing.warning=1e6"], SMALL_EXTENT)
    assert {1e6} == {each.threshold for each in diagnosis.findings if each.check == "vanishing"} - {0.1}


def test_a_config_is_checked_at_its_highest_learning_rate_if_adam_trains_it(place: Path) -> None:
    def judged(*arguments: str) -> list[float]:
        (diagnosis,) = diagnose_paths([str(place / "own.toml"), *arguments], SMALL_EXTENT)
        return sorted(
            each.value for each in diagnosis.findings if each.check == "learning-rate" and each.value is not None
        )

    arguments = ["model.residual=post-ln", "model.num_layers=6"]
    low, high = judged(*arguments, "schedule.learning_rate=1e-3"), judged(*arguments, "schedule.learning_rate=1e-2")
    assert any(map(math.isfinite, low))
    assert high == pytest.approx([value / 10 for value in low])
    assert not judged(*arguments, "optimiser.name=sgd")


def test_a_run_is_measured_at_its_start_and_at_a_checkpoint(place: Path) -> None:
    start, trained = diagnose_paths([str(place / "run")], SMALL_EXTENT)
    assert (start.stage.name, start.spread_over) == ("start", "seeds")
    assert (trained.stage.step, trained.spread_over, trained.repeats) == (4, "batches", 2)
    kept = place / "run" / "diagnosis"
    assert same(Diagnosis.read(kept / "start.json"), start)
    assert same(Diagnosis.read(kept / "step-00000004.json"), trained)
    *_, latest = subjects_of(Run(place / "run"), Extent(checkpoint="latest", tokens=60))
    assert latest.stage.step == 4


def test_a_trained_run_is_judged_by_its_optimiser_s_state(place: Path) -> None:
    start, trained = diagnose_paths([str(place / "run")], SMALL_EXTENT)
    assert {each.severity for each in start.findings if each.check == "conditioning"} == {"not measured"}
    judged = [each for each in trained.findings if each.check == "conditioning"]
    assert [each.location.stack for each in judged] == ["encoder", "decoder"]
    measure, config = trained["adam-conditioning"], read_config(place / "run", [])
    rate = config.schedule.learning_rate * 4 / config.schedule.warmup
    assert measure.fact("learning rate") == pytest.approx(rate)
    assert measure.fact("ε") == config.optimiser.eps
    state = checkpoint.load(place / "run" / "checkpoints" / "latest").optimiser
    matrices = [each for name, each in state.items() if name.endswith("exp_avg_sq") and each.dim() > 1]
    roots = [(0.98 * each.double() / (1 - 0.98**5)).sqrt() for each in matrices]  # a fifth step without gradient
    each = [rate * 0.1 / (1 - 0.9**5) / (root + config.optimiser.eps) for root in roots]
    assert measure.fact("κ") == pytest.approx(sum(one.square().sum().item() for one in each) ** 0.5, rel=1e-3)
    assert {each.key for each in trained.not_measured} >= OF_DEPTH | OF_HISTORY - {"adam-conditioning"} | {
        "gradient-by-stream"
    }
    assert {"adam-rms", "optimiser-settings", "update-size"} <= {each.key for each in trained.measurements}


def test_another_optimiser_says_why_it_has_no_condition(place: Path, tmp_path: Path) -> None:
    config = read_config(place / "own.toml", ["optimiser.name=sgd", "schedule.learning_rate=0.01"])
    Run(config, tmp_path / "run").train(quiet=True)
    *_, trained = diagnose_paths([str(tmp_path / "run")], SMALL_EXTENT)
    with pytest.raises(UserError, match="SGD is not Adam"):
        trained["adam-conditioning"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to diagnose"),
        (["model.dropout=0"], "say what to diagnose"),
        (["{place}/missing.toml"], "missing.toml: no such file"),
        (["{place}/own.toml", "model.residul=b2t"], "did you mean 'residual'"),
        (["{place}/store"], "neither a run folder .* nor a model .* but dropped.json, manifest.json"),
        (
            ["{place}/run", "model.dropout=0"],
            "a trained model is diagnosed as it is; model.dropout=0 needs a config file",
        ),
    ],
)
def test_mistakes(arguments: list[str], message: str, place: Path) -> None:
    with pytest.raises(UserError, match=message):
        diagnose_paths([word.format(place=place) for word in arguments], SMALL_EXTENT)


def test_a_run_folder_that_is_incomplete(place: Path, tmp_path: Path) -> None:

    half = tmp_path / "half"
    shutil.copytree(place / "run", half, symlinks=True)
    with pytest.raises(UserError, match="no checkpoint 'step-00000009'; there are: step-00000004"):
        diagnose_paths([str(half)], Extent(checkpoint="step-00000009"))
    weights = half / "checkpoints" / "step-00000004" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"model.safetensors: damaged"):
        diagnose_paths([str(half)], SMALL_EXTENT)
    assert Diagnosis.read(half / "diagnosis" / "start.json").stage.name == "start", (
        "the diagnosis at initialisation was made nevertheless"
    )
    shutil.rmtree(half / "checkpoints")
    (start,) = diagnose_paths([str(half)], SMALL_EXTENT)
    assert NO_CHECKPOINT in start.notes
    (half / "status.json").unlink()
    with pytest.raises(UserError, match="neither a run folder"):
        diagnose_paths([str(half)], SMALL_EXTENT)


def test_depths_on_the_command_line() -> None:
    from typer.testing import CliRunner

    from lamina.cli import app
    from lamina.cli.reports import _read_depths

    assert _read_depths("2,8, 32") == (2, 8, 32)
    asked = CliRunner().invoke(app, ["diagnose", "missing.toml", "--depths", "2;8"])
    assert isinstance(asked.exception, UserError)
    assert "separated by commas, such as 2,8,32, not '2;8'" in str(asked.exception)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASK_CONFIGS)
def test_every_kind_of_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smoke: Any = Path(__file__).parents[2] / "configs" / "smoke" / f"{name}.toml"
    monkeypatch.chdir(tmp_path)
    (diagnosis,) = diagnose_paths([str(smoke), *TINY], SMALL_EXTENT)
    assert {each.key for each in diagnosis.measurements} >= RECORDED


def watched_run(folder: Path, *parts: int) -> Path:
    """A run that is watched at every second step and resumed up to each of these steps in turn."""
    run = trained_run("translation", folder, steps=1)
    for steps in parts:
        Run(read_config(run, [f"train.steps={steps}", "diagnose.every=2"]), run).train(quiet=True)
    return run


def test_the_former_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"version": 1, "name": "x", "model": "", "measures": []}')
    with pytest.raises(UserError, match=r"format 1, but this version of Lamina reads format 2: make it again with lam"):
        diagnose_paths([str(tmp_path / "old.json")], SMALL)


def test_a_watched_run_shows_its_observations(tmp_path: Path) -> None:
    run = watched_run(tmp_path, 5)
    start, trained, watched = diagnose_paths([str(run)], SMALL)
    assert [each.stage.step for each in (start, trained, watched)] == [None, 5, 4]
    assert watched["watched-updates"].measured
    page = tmp_path / "why.html"
    shown = CliRunner().invoke(app, ["diagnose", str(run / "diagnosis" / "training.json"), "--output", str(page)])
    assert shown.exit_code == 0, shown.output
    assert "watched at 2 steps, last at step 4" in shown.output
    assert "Updates over training" in page.read_text()


def test_stored_diagnoses_are_shown_without_measuring(tmp_path: Path) -> None:
    one, other = make("post-ln"), make("pre-ln", step=3)
    save_diagnoses([one], tmp_path / "one.json")
    save_diagnoses([other, one], tmp_path / "both.json")
    shown = diagnose_paths([str(tmp_path / "one.json")], SMALL)
    assert str(shown) == str([one]), "some numbers are none, and not equal"
    names = [each.name for each in diagnose_paths([str(tmp_path / name) for name in ("both.json", "one.json")], SMALL)]
    assert names == ["pre-ln", "post-ln", "post-ln"]


@pytest.mark.parametrize("content", ["{", "[]x", '{"name": "x"}', "[1]"])
def test_a_file_that_is_no_diagnosis_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "metrics.json"
    with pytest.raises(UserError, match=r"metrics\.json: No such file"):
        diagnose_paths([str(file)], SMALL)
    file.write_text(content)
    with pytest.raises(UserError, match=r"metrics\.json: not a diagnosis"):
        diagnose_paths([str(file)], SMALL)


def test_files_of_a_run_that_hold_no_diagnosis_are_left_out_and_named(tmp_path: Path) -> None:
    make("pre-ln").write(tmp_path / "start.json")
    write_observations(ObservationsFile(tmp_path / "observations.json"), [])
    (tmp_path / "failure.json").write_text('{"step": 3}')
    files = [str(tmp_path / name) for name in ("failure.json", "observations.json", "start.json")]
    result = CliRunner().invoke(app, ["diagnose", *files, "--output", str(tmp_path / "why.md")])
    assert result.exit_code == 0, result.output
    text = "".join(result.output.split())
    assert f"fileswithoutadiagnosis:{files[0]},{files[1]}" in text
    assert "pre-ln" in (tmp_path / "why.md").read_text()
    with pytest.raises(UserError, match="not a diagnosis; lamina diagnose --output why.json writes one"):
        diagnose_paths(files[1:2], SMALL)
    with pytest.raises(UserError, match="none of these files holds a diagnosis"):
        diagnose_paths(files[:2], SMALL)
