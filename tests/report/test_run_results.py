"""Results that a report reads from run folders, and folders that it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.config import to_toml
from lamina.errors import UserError
from lamina.report.comparison_report import ComparisonReport
from lamina.report.conclusions import draw_conclusions
from lamina.report.pages.comparison import comparison_page
from lamina.report.run_results import read_run_results
from lamina.run_folder.checkpoints import step_of
from lamina.run_folder.folder import RunFolder
from lamina.runs.run import Run, read_config
from lamina.tasks.base import SampleOutput
from lamina.training.config import RunConfig
from support.made_diagnoses import make
from support.trained_runs import trained_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for task in ("translation", "language-modelling"):
        trained_run(task, folder)
    return folder / "runs"


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "translation", tmp_path / "run", symlinks=True))


def change_status(run: Path, **changes: Any) -> None:
    file = run / "status.json"
    values = json.loads(file.read_text()) | changes
    del values["sha256"]  # as earlier versions wrote it
    file.write_text(json.dumps(values))


def test_the_result_of_a_run_that_is_too_short(made: Path) -> None:
    (result,) = read_run_results([made / "translation"])
    assert (result.name, result.schemes, result.layers, result.state) == (
        "translation",
        ("pre-ln",),
        (1, 1),
        "too short",
    )
    assert result.reason
    assert [step for step, _ in result.training_loss] == [1], "logged every 10 steps, and the first"
    assert result.best_loss is not None
    assert result.best_loss > 0


def test_a_finished_run_has_its_metric_and_samples(made: Path) -> None:
    words = ["train.steps=60", "train.samples=2", "train.validate_every=30", "schedule.learning_rate=3e-2"]
    path = made / "finished"
    Run(read_config(made / "translation", words), path).train(quiet=True)
    (result,) = read_run_results([path])
    assert result.state == "finished"
    (final,) = [line for line in RunFolder(path).metrics.read() if "final_bleu" in line]
    assert result.metrics["bleu"] == final["final_bleu"]
    assert len(result.samples) == 2, "of the last validation alone"
    assert [output for step, output in RunFolder(path).samples.read() if step == 60] == result.samples
    assert all(sample.source and sample.reference for sample in result.samples)


def test_samples_are_those_of_the_last_validation_however_they_look(run: Path) -> None:
    last = [SampleOutput("two\nlines", "", "a: b"), SampleOutput("step 9", "c", "")]
    with RunFolder(run).claim() as folder:
        folder.samples.append(3, [SampleOutput("x", "y", "z")])
        folder.samples.append(6, last)
    (result,) = read_run_results([run])
    assert result.samples == last


def test_one_page_has_one_validation_loss(run: Path) -> None:
    """The lowest: in the table of results and in the sentences."""
    change_status(run, state="finished")
    lines = [{"step": 3, "valid_nll": 2.125}, {"step": 6, "valid_nll": 3.5}, {"step": 6, "final_nll": 3.5}]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    results = read_run_results([run])
    text = comparison_page(results, "md", draw_conclusions(results), "One")
    assert "validation loss 2.12" in text
    row = next(line for line in text.splitlines() if line.startswith("| pre-ln"))
    assert [cell.strip() for cell in row.split("|")][2:4] == ["1-1", "2.12"]
    masked = RunConfig.read_stored(run / "config.toml", ["task=masked-language-modelling"])
    (run / "config.toml").write_text(to_toml(masked))
    (result,) = read_run_results([run])
    assert (result.metrics, result.best_loss) == ({}, 2.125), "where the loss is the metric too"


def test_runs_of_different_tasks_are_not_shown_together(made: Path) -> None:
    with pytest.raises(UserError, match="translation is a run of translation, .*modelling of language-modelling"):
        read_run_results([made / "translation", made / "language-modelling"])


def test_a_folder_or_a_file_that_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "report.html").touch()
    for path in (tmp_path, tmp_path / "report.html"):
        with pytest.raises(UserError, match="not a run folder, or one that never started"):
            read_run_results([path])


def test_the_version_that_wrote_a_run_is_named_when_it_cannot_be_read(run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace("[train]", "[train]\nfuture = 3"))
    with pytest.raises(UserError, match=r"config.toml: train.future: unknown option 'future'.*$") as ours:
        read_run_results([run])
    assert "Lamina" not in str(ours.value)
    change_status(run, version="9.1")
    with pytest.raises(UserError, match=rf"'future'.* written by Lamina 9.1, this is {lamina.__version__}$"):
        read_run_results([run])


def test_a_status_of_another_version_or_damaged(run: Path) -> None:
    change_status(run, version="9.1", mood="calm")
    with pytest.raises(UserError, match="status.json: cannot be understood; the run was written by Lamina 9.1"):
        read_run_results([run])
    (run / "status.json").write_text("{")
    with pytest.raises(UserError, match="status.json: cannot be understood; damaged, or not Lamina's: move it away"):
        read_run_results([run])


def test_a_diagnosis_of_another_version(run: Path) -> None:
    (run / "diagnosis" / "start.json").write_text('{"version": 1, "name": "a"}')
    with pytest.raises(UserError, match="start.json: a diagnosis in format 1, .* make it again with lamina diagnose"):
        read_run_results([run])
    (run / "diagnosis" / "start.json").write_text('{"version": 2, "name": "a"}')
    with pytest.raises(UserError, match="start.json: a damaged diagnosis; make it again"):
        read_run_results([run])


def test_a_multilingual_run_has_its_means_and_its_table(tmp_path: Path) -> None:
    path = trained_run("multilingual-translation", tmp_path, steps=3)
    change_status(path, state="finished")
    directions = ("marn-tuvo", "tuvo-marn", "marn-selu", "selu-marn")
    values = {f"final_bleu {each}": 1.0 for each in directions} | {"final_bleu": 1.0, "final_EX": 1.0, "final_XE": 1.0}
    with (path / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 3} | values) + "\n")
    shutil.rmtree(tmp_path / "stores")  # the run's own copy of the manifest names the languages
    (result,) = read_run_results([path])
    assert list(result.metrics) == ["bleu", "EX", "XE"]
    around, _ = result.tables
    assert [row.name for row in around.rows] == ["tuvo", "selu"]
    assert all(value is not None for row in around.rows for value in row.read(result.final)[:2])
    assert "BLEU by language" in comparison_page([result], "html", (), "One")
    manifest = path / "manifest.json"
    manifest.unlink()
    (result,) = read_run_results([path])
    assert result.tables == (), "a run without its manifest is reported without the table"


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.toml"])
def test_a_changed_file_is_named(run: Path, name: str) -> None:
    """Also if the change leaves a valid file."""
    content = (run / name).read_text()
    changed = content.replace("seed = 1\n", "seed = 2\n") if name == "config.toml" else content.replace("1", "2", 1)
    assert changed != content
    (run / name).write_text(changed)
    with pytest.warns(UserWarning, match=rf"{name}: its content has changed, so it was damaged or changed by hand"):
        read_run_results([run])


def test_a_diagnosis_that_was_changed_or_is_of_another_stage(run: Path) -> None:
    start = RunFolder(run).start_diagnosis
    step = RunFolder(run).step_diagnosis(1)
    make("pre-ln").write(start)
    read_run_results([run])
    shutil.copy(start, step)
    with pytest.raises(UserError, match=rf"{step.name}: a diagnosis at the start, so not of this name; make it again"):
        read_run_results([run])
    step.unlink()
    start.write_text(start.read_text().replace('"name": "', '"name": "o', 1))
    with pytest.raises(UserError, match=r"start\.json: damaged, its content has changed.* Make it again"):
        read_run_results([run])


def test_missing_diagnoses_are_listed(run: Path) -> None:
    folder = RunFolder(run)
    shutil.rmtree(folder.diagnosis)
    missing = [folder.start_diagnosis, folder.step_diagnosis(step_of(folder.latest))]
    assert ComparisonReport.read([run]).missing == missing
