"""The equations of the schemes' files, written in plain text, as MathML, which needs no script and no network.

Each token becomes one element, so that two equations can be compared token by token.
"""

from __future__ import annotations

import re
from html import escape

SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹ᵀ⁻", "0123456789T−")
TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<word>[a-z]{2,}(?:[ -][a-z]{2,})*\b(?![_(]))"  # words of a sentence
    r"|(?P<name>LN|min|[A-Za-zα-ωΣ])(?P<below>_\{[^}]*\}|_[A-Za-z0-9+]+|[₀-₉]+)?"
    r"(?P<above>\^-?[\w./]+|[⁰-⁹ᵀ²³¹]+)?"
    r"|(?P<number>\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?P<power>\^-?[\w./]+)?"
    r"|(?P<closing>\))(?P<raised>\^-?[\w./]+)?"
    r"|(?P<sign>.)",
)


def tokens(line: str) -> list[str]:
    """The MathML elements of one line of an equation."""
    found = []
    for match in TOKEN.finditer(line):
        if match["space"]:
            found.append(f'<mspace width="{min(2.0, 0.25 * len(match[0])):.2f}em"/>')
        elif match["word"]:
            found.append(f"<mtext>{escape(match[0])}</mtext>")
        elif match["name"]:
            variant = "" if len(match["name"]) == 1 else ' mathvariant="normal"'
            base = f"<mi{variant}>{match['name']}</mi>"
            found.append(_scripts(base, match["below"], match["above"]))
        elif match["number"]:
            found.append(_scripts(f"<mn>{match['number']}</mn>", None, match["power"]))
        elif match["closing"]:
            found.append(_scripts('<mo stretchy="false">)</mo>', None, match["raised"]))
        else:
            found.append(f'<mo stretchy="false">{escape(match[0])}</mo>')
    return found


def to_mathml(line: str) -> str:
    """One line of an equation as a block of MathML, with the plain text for programs that read it aloud."""
    return f'<math display="block" aria-label="{escape(line)}"><mrow>{"".join(tokens(line))}</mrow></math>'


def _scripts(base: str, below: str | None, above: str | None) -> str:
    low = below and f"<mrow>{_inner(below.lstrip('_').strip('{}').translate(SUBSCRIPTS))}</mrow>"
    high = above and f"<mrow>{_inner(above.lstrip('^').translate(SUPERSCRIPTS))}</mrow>"
    if low and high:
        return f"<msubsup>{base}{low}{high}</msubsup>"
    if low:
        return f"<msub>{base}{low}</msub>"
    return f"<msup>{base}{high}</msup>" if high else base


def _inner(text: str) -> str:
    parts = re.findall(r"[A-Za-z]{2,}|[A-Za-zα-ω]|[\d.]+|.", text)
    return "".join(_part(part) for part in parts)


def _part(part: str) -> str:
    if part[0].isdigit():
        return f"<mn>{part}</mn>"
    if part.isalpha():
        return f'<mi mathvariant="normal">{part}</mi>' if len(part) > 1 else f"<mi>{part}</mi>"
    return f"<mo>{escape(part.replace('-', '−'))}</mo>"
