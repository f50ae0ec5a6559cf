"""The demonstration: a deep encoder–decoder under several schemes, and what its gradient looks like at the start."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from lamina.diagnose.measure.gradient_by_layer import gradient_by_layer
from lamina.model.encoder_decoder import EncoderDecoder
from lamina.model.options import ModelOptions
from lamina.report.figures import draw_by_layer
from lamina.report.schemes import show_table

SCHEMES = ("post-ln", "pre-ln", "b2t", "admin", "resi-dual", "deep-norm")
DEPTH, WIDTH, VOCABULARY = 18, 128, 500


def run_demo(folder: Path) -> None:
    console, started = Console(), time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)  # before the work, not after it
    torch.set_num_threads(1)  # small matrices: a second thread only waits
    show_table(console)
    console.print(f"\nGradient of the loss in a new {DEPTH}-{DEPTH} model, width {WIDTH}, by scheme:\n")
    measured = {}
    for scheme in track(SCHEMES, "measuring", console=console, transient=True):
        measured[scheme] = measure(scheme)
    console.print(_table(measured))
    picture = folder / "gradient-by-layer.svg"
    panels = {stack: {scheme: measured[scheme][stack] for scheme in SCHEMES} for stack in ("encoder", "decoder")}
    for file in (picture, picture.with_suffix(".png")):
        draw_by_layer(panels, "gradient norm of the last matrix", file)
    console.print(f"\nA line that falls to the left loses its gradient on the way down. Picture: [bold]{picture}[/]")
    console.print(f"Took {time.perf_counter() - started:.0f} s.")


def measure(scheme: str, seed: int = 1) -> dict[str, list[float]]:
    """The gradient by layer at initialisation, on random sentences."""
    torch.manual_seed(seed)
    options = ModelOptions(
        residual=scheme,
        num_layers=DEPTH,
        model_dim=WIDTH,
        feed_forward_dim=2 * WIDTH,
        num_heads=4,
        vocab_size=VOCABULARY,
        dropout=0.0,
    )
    model = EncoderDecoder(options)
    source, target, labels = torch.randint(3, VOCABULARY, (3, 16, 20))
    model.calibrate(source, target)
    model(source, target, labels=labels).smoothed.mean().backward()
    return {"encoder": gradient_by_layer(model.encoder), "decoder": gradient_by_layer(model.decoder)}


def _table(measured: dict[str, dict[str, list[float]]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scheme", style="cyan")
    for heading in ("decoder layer 1", f"layer {DEPTH}", "first / last"):
        table.add_column(heading, justify="right")
    for scheme, stacks in measured.items():
        first, last = stacks["decoder"][0], stacks["decoder"][-1]
        table.add_row(scheme, f"{first:.2e}", f"{last:.2e}", f"{first / last:.3f}")
    return table
