"""A matplotlib figure as a small inline SVG: it takes its ink and its font from the page around it.

Colours of `INK` and `RULE` become the page's own, so one picture serves light, dark and paper. There is no date, no
metadata, no style sheet and no namespace in it; ids carry a prefix, so that pictures on one page do not mix.
"""

from __future__ import annotations

import io
import re
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, RULE = "#010203", "#030201"  # stand for the page's colours until the picture is written
FROM_PAGE = {INK: "currentColor", RULE: "var(--rule)"}
XLINK = "{http://www.w3.org/1999/xlink}href"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "lamina",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "DejaVu Sans",  # only to measure with: the widest that a page may choose
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "text.color": INK,
}


@contextmanager
def drawing(**changes: Any) -> Iterator[None]:
    """The style of all pictures, for making and for writing one; underscores in names of changes stand for dots."""
    import matplotlib

    changed = {name.replace("_", "."): value for name, value in changes.items()}
    with matplotlib.rc_context(STYLE | changed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # the page's font may have it
        yield


def canvas(width: float, height: float, left: float = 0.0, below: float = 0.0) -> tuple[Figure, Axes]:
    """A figure with one set of axes and no ground of its own; in inches, as they would be in print.

    Margins are fixed, so that the axes of pictures next to each other stand in line.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), frameon=False)
    edge = 0.08 if left or below else 0.0
    axes = figure.add_axes((left / width, below / height, 1 - (left + edge) / width, 1 - (below + edge) / height))
    axes.patch.set_visible(False)
    return figure, axes


def printable(text: str, limit: int = 80) -> str:
    """On one line, without control characters or turns of direction, and not longer than a picture can bear."""
    text = " ".join("".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def inline(figure: Figure, prefix: str, label: str) -> Markup:
    """The figure as an `<svg>` element, described by `label` to whoever cannot see it; without a label an ornament."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    picture = ElementTree.fromstring(written.getvalue())
    used = set(re.findall(r"#([\w.-]+)", " ".join(each for node in picture.iter() for each in _references(node))))
    for node in picture.iter():
        node.tag = node.tag.rpartition("}")[2]
        node.text, node.tail = (node.text or "").strip() or None, None
        _tidy(node, prefix, used)
    for parent in picture.iter():
        for child in [each for each in parent if _is_empty(each)]:
            parent.remove(child)
    described = {"role": "img", "aria-label": label} if label else {"aria-hidden": "true"}
    picture.attrib = {"viewBox": picture.get("viewBox", ""), **described}
    # Serialised as XML, so that every name in it is escaped; in a page no namespace is needed.
    return Markup(ElementTree.tostring(picture, encoding="unicode"))


def _references(node: ElementTree.Element) -> Iterator[str]:
    yield node.get(XLINK, "")
    yield node.get("clip-path", "")


def _tidy(node: ElementTree.Element, prefix: str, used: set[str]) -> None:
    if (name := node.attrib.pop("id", None)) in used:
        node.set("id", f"{prefix}-{name}")
    if target := node.attrib.pop(XLINK, None):
        node.set("href", f"#{prefix}-{target[1:]}" if target.startswith("#") else "".join(target.split()))
    if clip := node.get("clip-path"):
        node.set("clip-path", clip.replace("#", f"#{prefix}-"))
    if style := node.get("style"):
        for colour, own in FROM_PAGE.items():
            style = style.replace(colour, own)
        node.set("style", re.sub(r"\s*font-family: [^;]*;?", "", style))
    for name in ("d", "x", "y", "transform"):
        if value := node.get(name):
            node.set(name, re.sub(r"-?\d+\.\d+", _rounded, " ".join(value.split())))


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _is_empty(node: ElementTree.Element) -> bool:
    """The style sheet, which would rule the whole page, and groups that hold nothing."""
    return (node.tag in ("g", "defs") and all(each.tag == "style" for each in node)) or node.tag in (
        "style",
        "metadata",
    )
