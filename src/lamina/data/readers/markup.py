"""Sentences from the mark-up in which IWSLT and WMT are distributed.

There are two kinds, distinguished by file name: `train.tags.*`, plain lines between a few one-line tags, of which
titles and descriptions are sentences too; and `*.sgm`, `*.sgml`, `*.xml`, where a sentence is a `<seg>` on a line of
its own. Empty sentences are yielded, since dropping one on one side only would shift every pair after it.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lamina.errors import UserError
from lamina.files.text_lines import read_lines

_NO_SENTENCE = re.compile(r"\s*</?(url|keywords|talkid|speaker|reviewers?|translators?|transcript|doc)\b")
_SENTENCE_TAGS = re.compile(r"</?(title|description)>")
_SEGMENT = re.compile(r"\s*<seg\b[^>]*>(.*)</seg>\s*", re.IGNORECASE)
_OPENS_SEGMENT = re.compile(r"\s*<seg\b", re.IGNORECASE)


def is_markup(path: str | Path) -> bool:
    name = Path(path).name.removesuffix(".gz")
    return _is_talks(path) or name.endswith((".sgm", ".sgml", ".xml"))


def read_segments(path: str | Path, repaired: Counter[str] | None = None) -> Iterator[tuple[int, str]]:
    """Line number and text of every sentence."""
    found = False
    extract = _talk_line if _is_talks(path) else _segment
    for number, line in enumerate(read_lines(path, repaired), start=1):
        text = extract(line, path, number)
        if text is not None:
            found = True
            yield number, html.unescape(text).strip()
    if not found:
        raise UserError(f"{path}: no sentence found; expected <seg> … </seg> lines, or plain ones in train.tags files.")


def _is_talks(path: str | Path) -> bool:
    return Path(path).name.startswith("train.tags.")


def _talk_line(line: str, path: str | Path, number: int) -> str | None:
    return None if _NO_SENTENCE.match(line) else _SENTENCE_TAGS.sub("", line)


def _segment(line: str, path: str | Path, number: int) -> str | None:
    match = _SEGMENT.fullmatch(line)
    if match is None and _OPENS_SEGMENT.match(line):
        raise UserError(f"{path}, line {number}: a <seg> that does not close on its own line; put it on one line.")
    return match[1] if match else None
