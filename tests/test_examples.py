"""Every example is run as a user runs it, and prints what its own text promises; so is the code of the notebook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SHOWN = {
    "diagnose_hugging_face": ["labels as the model expects them: 0 problems", "labels shifted twice: 1 problems"],
    "new_measure": ["layer 1 to 12: 0."],
    "new_scheme": ["pre-ln: E‖x‖² ÷ d is", "averaged: E‖x‖² ÷ d is"],
    "new_task": ["'correct':"],
    "own_sublayers": ["post-ln ", "pre-ln ", "b2t ", "deep-norm "],
    "rewire_gpt2": ["pre-ln ", "resi-dual ", "b2t ", "the saved model generates the same: True"],
    "watch_trainer": ["step 20: "],
}
"""Parts of what each example prints."""
FILES = {"diagnose_hugging_face": "labels shifted twice.html", "watch_trainer": "trained/diagnosis/watch.html"}
"""A page that an example writes."""
NEEDS_TRANSFORMERS = {"diagnose_hugging_face", "rewire_gpt2", "watch_trainer"}
pytestmark = pytest.mark.documented


def run(code: list[str], folder: Path) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run([sys.executable, *code], cwd=folder, capture_output=True, encoding="utf-8", env=environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_example_is_listed() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_example(name: str, tmp_path: Path) -> None:
    if name in NEEDS_TRANSFORMERS:
        pytest.importorskip("transformers")
    printed = run([str(EXAMPLES / f"{name}.py")], tmp_path)
    assert [part for part in SHOWN[name] if part not in printed] == [], printed
    assert (tmp_path / FILES.get(name, ".")).exists()


def test_the_code_of_the_notebook_runs_in_order(tmp_path: Path) -> None:
    notebook = json.loads((EXAMPLES / "first_five_minutes.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 4
    assert all(not cell["outputs"] for cell in cells), "outputs are not stored: they would grow stale"
    printed = run(["-c", "\n".join("".join(cell["source"]) for cell in cells)], tmp_path)
    post, pre = printed.split("post-LN")[1].split("pre-LN")
    assert "learning rate" in post
    assert (tmp_path / "why.html").exists()
    assert (tmp_path / "runs" / "b2t").is_dir()
