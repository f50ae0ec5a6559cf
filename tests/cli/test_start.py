"""`lamina schemes`, `demo`, `init` and `prepare`, as a user calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina import residual
from lamina.runs.run import read_config
from support.commands import assert_refused, lamina, printed


def test_schemes_lists_all_and_shows_one() -> None:
    listed = lamina("schemes").stdout
    assert all(f"{name} " in listed for name in residual.names())
    assert "W[l,k]" in listed, "brackets are text, not markup"
    shown = lamina("schemes", "admin").stdout
    for expected in ("x ← LN(ω⊙x + f(x))", "omega = 'profile'", "Liu et al. 2020", "⊙ω", "def reference"):
        assert expected in shown


def test_demo_into_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    failed = lamina("demo", "--folder", str(tmp_path / "taken"))
    assert failed.returncode == 2
    assert "taken" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_init_lists_the_tasks_and_writes_a_config_that_can_be_read(tmp_path: Path) -> None:
    assert "lamina init translation\n" in printed("init")
    file = tmp_path / "own.toml"
    assert f"lamina train {file}" in printed("init", "translation", "--output", str(file))
    assert read_config(file).task == "translation"


def test_prepare_lists_shows_and_prepares(tmp_path: Path) -> None:
    listed = lamina("prepare").stdout
    assert "embedded-translation" in listed
    assert "wikitext-103" in listed
    assert "CC BY-SA" in lamina("prepare", "wikitext-103", "--show").stdout
    arguments = ["prepare", "embedded-translation", "train=['translation:60']", "valid=['translation:9']"]
    arguments += ["test=['translation:9']", "tokenizer.size=400", "--output", "toy"]
    made = lamina(*arguments, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "60" in made.stdout
    assert (tmp_path / "toy" / "manifest.json").exists()
    assert made.stderr == "", "quiet where there is no terminal"
    again = lamina(*arguments, "tokenizer.size=500", cwd=tmp_path)
    assert again.returncode == 2
    assert "option tokenizer" in again.stderr
    assert lamina(*arguments, "tokenizer.size=500", "--replace", cwd=tmp_path).returncode == 0
    assert "as it was made" in lamina("prepare", "toy", "--verify", cwd=tmp_path).stdout
    tokens = tmp_path / "toy" / "train" / "source.tokens.npy"
    tokens.write_bytes(tokens.read_bytes()[:-1] + b"\xff")
    changed = lamina("prepare", "toy", "--verify", cwd=tmp_path)
    assert changed.returncode == 1
    assert "source.tokens.npy: changed" in changed.stdout


def test_prepare_from_a_file_lists_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\n\nthree four\nfive\n")
    (tmp_path / "b.txt").write_text("eins zwei\nleer\ndrei vier\nfünf\n")
    (tmp_path / "own.toml").write_text('output = "store"\ntrain = ["a.txt", "b.txt"]\n[tokenizer]\nsize = 300\n')
    made = lamina("prepare", "own.toml", "--dropped", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "1 empty" in made.stdout
    assert "\t2\tempty" in made.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "embeded-text", "--output", "x"], "did you mean 'embedded-text'"),
        (["prepare", "embedded-text"], "say where the store goes"),
        (["prepare", "missing.toml"], "missing.toml: no such file"),
        (["prepare", "gigaword", "--output", "x"], "Lamina does not download by itself"),
        (["prepare", "embedded-text", "tokenizer.siz=3", "--output", "x"], "did you mean 'size'"),
    ],
)
def test_prepare_mistakes(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert_refused(arguments, message, tmp_path)


def test_doctor_examines_this_machine() -> None:
    done = lamina("doctor")
    assert done.returncode == 0, done.stderr
    for expected in ("versions", "threads", "allocator", "bf16", "determinism"):
        assert f"{expected} " in done.stdout
