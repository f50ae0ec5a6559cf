"""A matplotlib figure as a small inline SVG that takes its text colour and font from the page around it.

`INK` and `RULE` are replaced by the page's own colours, so one picture serves light mode, dark mode and print. There is
no date, no metadata, no style sheet and no namespace in it. Ids have a prefix, so that those of several pictures on one
page differ.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, RULE = "#010203", "#030201"  # placeholders for the page's colours
FROM_PAGE = {INK: "currentColor", RULE: "var(--rule)"}
XLINK = "{http://www.w3.org/1999/xlink}href"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "lamina",
    "text.parse_math": False,  # a dollar sign in a name is text
    "font.family": "DejaVu Sans",  # for layout only: the widest font that a page may use
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
    """Set the style of all pictures while one is drawn and written; `grid_color` changes matplotlib's `grid.color`."""
    import matplotlib

    changed = {name.replace("_", "."): value for name, value in changes.items()}
    with matplotlib.rc_context(STYLE | changed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # the page's font may have it
        yield


def canvas(
    width: float, height: float, left: float = 0.0, below: float = 0.0, right: float | None = None
) -> tuple[Figure, Axes]:
    """A figure with one set of axes and a transparent background; sizes in inches.

    Margins are fixed, so that the axes of pictures next to each other are aligned.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), frameon=False)
    edge = 0.08 if left or below else 0.0
    right = edge if right is None else right
    axes = figure.add_axes((left / width, below / height, 1 - (left + right) / width, 1 - (below + edge) / height))
    axes.patch.set_visible(False)
    return figure, axes


def inline(figure: Figure, prefix: str, label: str, titles: Mapping[str, Sequence[str]] | None = None) -> Markup:
    """The figure as an `<svg>` element; `label` describes it to screen readers, which skip one without a label.

    titles: by the `gid` of a line, the texts that a browser shows while the pointer is on its markers, in their order.
    """
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    picture = ElementTree.fromstring(written.getvalue())
    used = set(re.findall(r"#([\w.-]+)", " ".join(each for node in picture.iter() for each in _references(node))))
    given = titles or {}
    marked = [(node, given[name]) for node in picture.iter() if (name := node.get("id", "")) in given]
    for node in picture.iter():
        node.tag = node.tag.rpartition("}")[2]
        node.text, node.tail = (node.text or "").strip() or None, None
        _tidy(node, prefix, used)
    for line, texts in marked:
        for marker, text in zip(line.iter("use"), texts, strict=True):
            ElementTree.SubElement(marker, "title").text = text
    for parent in picture.iter():
        for child in [each for each in parent if _is_empty(each)]:
            parent.remove(child)
    described = {"role": "img", "aria-label": label} if label else {"aria-hidden": "true"}
    picture.attrib = {"viewBox": picture.get("viewBox", ""), **described}
    # Serialising as XML escapes every name; inside HTML no namespace is needed.
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
    """Whether a node can be removed: empty groups, metadata, and style sheets, which would apply to the whole page."""
    return (node.tag in ("g", "defs") and all(each.tag == "style" for each in node)) or node.tag in (
        "style",
        "metadata",
    )
