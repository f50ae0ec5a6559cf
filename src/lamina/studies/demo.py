"""The demonstration: a deep encoder–decoder is trained to translate an embedded language under five schemes.

Depth, width and learning rate are such that a plain post-LN model does not train in a few minutes and others do.
Everything that is printed at the end is computed from the runs.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lamina.config import read_values
from lamina.data.prepare import prepare
from lamina.data.sources import source_options
from lamina.data.synthetic import translation_pairs
from lamina.errors import UserError
from lamina.files.atomic import write_file
from lamina.files.progress import progress_bar
from lamina.report.conclusions import best_run
from lamina.report.labels import scheme_name
from lamina.report.run_results import RunResult
from lamina.report.terminal.runs import show_comparison
from lamina.runs.run import Run
from lamina.studies.cells import make_cells
from lamina.studies.compare import compare
from lamina.terminal import open_console
from lamina.training.config import RunConfig

SCHEMES = ("post-ln", "pre-ln", "b2t", "admin", "resi-dual")
DATA = "embedded-short-translation"
CONFIG = """\
# What `lamina demo` trains; `lamina compare` takes it too.
task = "translation"

[data]
store = "{store}"
max_tokens = 384
oversize = "alone"

[model]
num_layers = 12
model_dim = 64
feed_forward_dim = 128
num_heads = 4
dropout = 0.0  # no sentence is seen twice

[schedule]
name = "linear"
learning_rate = 1e-3
warmup_steps = {warmup}

[train]
steps = {steps}
validate_every = 100
save_every = 0
log_every = 10
"""
STEPS, WARMUP = 700, 100  # a shorter demo warms up in its first half
SENTENCES, SEED = 4, 1  # how many are translated at the end, and the seed that draws them


def run_demo(folder: Path, steps: int = STEPS) -> Path:
    """Train the five runs, report them, and translate a few sentences with the best; returns the report's file."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file, but the demo makes a folder; choose another --folder")
    began, console = time.perf_counter(), open_console(markup=True)
    console.print(
        f"The same 12-12 model and data under {len(SCHEMES)} residual schemes, {steps} steps each: "
        f"about {5 * steps / STEPS:.0f} minutes on two cores. Nothing is downloaded.\n"
    )
    with progress_bar() as progress:
        prepare(source_options(DATA, ".", str(folder / "data")), progress)
    config = folder / "demo.toml"
    write_file(config, CONFIG.format(store=folder / "data", steps=steps, warmup=min(WARMUP, steps // 2)).encode())
    cells, page = make_cells(read_values(config, kind=RunConfig), SCHEMES), folder / "report.html"
    report = compare(cells, folder / "runs", page, title="Five residual schemes, twelve layers deep")
    show_comparison(report.summaries, report.conclusions)
    best = best_run(report.results)
    if best is not None:
        _translate(best, folder / "runs" / best.name, console)
    console.print(f"\nThe report: [bold]{escape(str(page))}[/]  ({time.perf_counter() - began:.0f} s)")
    return page


def _translate(best: RunResult, path: Path, console: Console) -> None:
    """Translate a few sentences that are not in the training data with the best model."""
    run = Run(path)
    source, target = zip(*translation_pairs("test", SENTENCES, seed=SEED, short=True), strict=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("sentence", f"as {scheme_name(best.schemes)} translates it", "as it should be"):
        table.add_column(heading)
    for row in zip(source, run.generate(source), target, strict=True):
        table.add_row(*map(escape, row))
    console.print()
    console.print(table)
