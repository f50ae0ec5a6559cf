"""The results of the training benchmark as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from pairs import Estimate, ratio_of_medians
from training_peers import LAMINA

Record = dict[str, Any]


def speed_over(record: Record) -> Estimate:
    """How many times as fast Lamina is as a contender, from the rounds in which both ran."""
    return ratio_of_medians(list(zip(record["seconds"], record["beside"], strict=True)))


def share_of_peak(record: Record, flops: float) -> float:
    """The operations on real tokens per second, relative to those of large matrix products in the same rounds."""
    return float(flops / 1e12 * np.median(record["gemm"]) / np.median(record["seconds"]))


def headline(row: Record) -> tuple[str, Estimate] | None:
    """The fastest peer of a row and Lamina's speed relative to it; None if no peer ran."""
    if "processes" in row:
        return "one process", ratio_of_medians(list(zip(row["processes"]["1"], row["processes"]["2"], strict=True)))
    peers = {name: each for name, each in row["contenders"].items() if name != LAMINA and "failure" not in each}
    if not peers or "failure" in row["contenders"][LAMINA]:
        return None
    speeds = {name: speed_over(each) for name, each in peers.items()}
    best = min(speeds, key=lambda name: speeds[name].value)
    return best, speeds[best]


def show(rows: Record) -> None:
    """Print a row for each contender of each row, and below it whether the goals are met."""
    console = Console(highlight=False)
    console.width = max(console.width, 110)
    for name, row in rows.items():
        console.print(f"\n[bold]{name}[/]: {row['title']}")
        if "contenders" in row:
            console.print(_table(row))
            _print_notes(console, row)
        for line in _verdicts(row):
            console.print(line)


def _table(row: Record) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("library", style="cyan", no_wrap=True)
    headings = ("ms", "target tokens/s", "Lamina ÷ it", "of peak", "peak memory", "parameters")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, each in row["contenders"].items():
        if "failure" in each:
            table.add_row(name, "failed", *["–"] * (len(headings) - 1))
            continue
        seconds = float(np.median(each["seconds"]))
        ratio = "1" if name == LAMINA else str(speed_over(each))
        speed, share = f"{row['tokens'] / seconds:,.0f}", f"{share_of_peak(each, row['flops']):.0%}"
        memory = f"{each['memory'] / 2**20:,.0f} MiB" if each["memory"] else "–"  # its process was ended from outside
        table.add_row(name, f"{1000 * seconds:,.0f}", speed, ratio, share, memory, f"{each['parameters']:,}")
    return table


def _print_notes(console: Console, row: Record) -> None:
    for name, each in row["contenders"].items():
        if said := each.get("failure") or each.get("note"):
            console.print(f"{name}: {said}", markup=False)


def _verdicts(row: Record) -> Iterator[str]:
    found = headline(row)
    if found is None:
        yield "nothing to compare with"
        return
    peer, speed = found
    goal = row["goals"]["ratio"]
    yield f"relative to {peer}: {speed}; {goal} is {_verdict(speed.value >= goal)}"
    goal_share = row["goals"].get("share")
    if goal_share:
        share = share_of_peak(row["contenders"][LAMINA], row["flops"])
        yield f"share of peak {share:.0%}; {goal_share:.0%} is {_verdict(share >= goal_share)}"


def _verdict(met: bool) -> str:
    return "met" if met else "not met"


def draw(rows: Record, file: str) -> None:
    """One bar for each row: Lamina's speed relative to the fastest peer, its interval and its goal."""
    from matplotlib.figure import Figure

    shown = [(row["title"], row["goals"]["ratio"], *found) for row in rows.values() if (found := headline(row))]
    figure = Figure(figsize=(8, 0.5 * len(shown) + 0.9), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(shown))[::-1]
    values = np.array([speed.value for *_, speed in shown])
    spread = np.array([(speed.value - speed.low, speed.high - speed.value) for *_, speed in shown]).T
    axes.barh(places, values, xerr=np.maximum(spread, 0), color="#4c78a8", error_kw={"ecolor": "#222", "capsize": 3})
    goals = [goal for _, goal, *_ in shown]
    axes.plot(goals, places, "|", color="#e45756", markersize=16, markeredgewidth=2, label="goal")
    axes.axvline(1, color="#888", linewidth=0.8)
    axes.set_yticks(places, [f"{title}\n(÷ {peer})" for title, _, peer, _ in shown], fontsize=8)
    axes.set_xlabel("speed of Lamina relative to the fastest other library")
    axes.legend(loc="lower right")
    figure.savefig(file, format="svg", metadata={"Date": None})
