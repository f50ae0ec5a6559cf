"""How figures look: the same colour for the same scheme everywhere, told apart by colour-blind readers too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lamina import residual

COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]  # Okabe & Ito's palette
BROKEN = ["--", "-.", ":"]


def look_of(scheme: str) -> dict[str, str]:
    """The scheme's own colour, or one shared with others and a broken line, by its place among all names."""
    own = residual.find(scheme).colour
    if own is not None:
        return {"color": own, "linestyle": "-"}
    plain = [each.name for each in residual.schemes() if each.colour is None]
    at = plain.index(residual.find(scheme).name)
    return {"color": COLOURS[at % len(COLOURS)], "linestyle": BROKEN[at // len(COLOURS) % len(BROKEN)]}


def draw_by_layer(panels: Mapping[str, Mapping[str, Sequence[float]]], quantity: str, file: Path) -> None:
    """One panel per stack, one line per scheme, layers from left to right, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    figure, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.4), sharey=True, squeeze=False)
    for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for scheme, values in lines.items():
            axis.semilogy(range(1, len(values) + 1), values, label=scheme, linewidth=1.8, **look_of(scheme))
        axis.set(title=title, xlabel="layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel(quantity)
    axes[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
    plt.close(figure)
