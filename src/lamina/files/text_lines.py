"""Reading lines of text: strict, lazy and with bounded memory.

A line ends at `\\n` and nowhere else: U+2028, U+0085, vertical tabs and lone carriage returns are text, as they are
for every tool that counts lines. Files that are parallel on disk therefore stay parallel here.

A byte order mark at the start of a file and one carriage return before a line end are removed and counted, because they
are common and are not text. Invalid UTF-8, NUL, a damaged gzip stream, an empty file and a line longer than
`LONGEST_LINE` bytes are errors that name file and line, because repairing them could lose text.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from lamina.errors import UserError

LONGEST_LINE = 4 << 20  # bytes; far above any document, far below the size of a file without line ends

BYTE_ORDER_MARK = "byte order mark removed"
CARRIAGE_RETURN = "carriage return removed at line end"

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_GZIP_MARK = b"\x1f\x8b"
_ROOM = len(_UTF8_MARK) + len(b"\r\n")  # bytes that the longest line may have besides its text


def read_lines(path: str | Path, repaired: Counter[str] | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; repairs are counted in `repaired`."""
    yield from _decoded(_raw_lines(path, Counter() if repaired is None else repaired), path)


def read_stream(handle: BinaryIO, name: str) -> Iterator[str]:
    """The lines of a stream such as standard input, by the same rules; there may be none."""
    yield from _decoded(_split(handle, name, Counter()), name)


def _decoded(lines: Iterator[bytes], path: str | Path) -> Iterator[str]:
    for number, raw in enumerate(lines, start=1):
        if b"\0" in raw:
            raise UserError(
                f"{path}, line {number}: holds a NUL byte, so this is not plain text. If it is UTF-16, convert it with "
                f"`iconv -f UTF-16 -t UTF-8`; remove stray NULs with `tr -d '\\000'`."
            )
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, line {number}: byte {error.start + 1} (0x{raw[error.start]:02x}) is not valid UTF-8. Convert "
                f"the file with `iconv -f <its encoding> -t UTF-8`, or drop such bytes with `iconv -c -f UTF-8`."
            ) from None


def count_lines(path: str | Path) -> int:
    """The number of lines that `read_lines` would yield, without decoding them."""
    return sum(1 for _ in _raw_lines(path, Counter()))


def check_text(text: str, where: str) -> str:
    """Apply the same rules to text that did not come from a UTF-8 file (an escape in JSON, a hub column)."""
    if "\0" in text:
        raise UserError(f"{where}: the text holds a NUL character; remove it.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise UserError(f"{where}: the text holds U+{code:04X}, half of a surrogate pair and no character.") from None
    return text


def check_file(path: str | Path) -> Path:
    """The path of a regular file, which can be read more than once."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: no such file; relative paths start at the working directory, {Path.cwd()}.")
    if not path.is_file():
        raise UserError(
            f"{path}: not a regular file; it is read more than once, so no folder and no pipe will do; give a file."
        )
    return path


def _raw_lines(path: str | Path, repaired: Counter[str]) -> Iterator[bytes]:
    path = check_file(path)
    number = 0
    try:
        with _open(path) as handle:
            for raw in _split(handle, path, repaired):
                number += 1
                yield raw
    except (OSError, EOFError, zlib.error) as error:
        raise _explain_damage(path, number, error) from None
    if number == 0:
        raise UserError(f"{path}: the file is empty.")


def _split(handle: BinaryIO, path: str | Path, repaired: Counter[str]) -> Iterator[bytes]:
    number = 0
    while raw := handle.readline(LONGEST_LINE + _ROOM):
        if number == 0:
            raw = _without_mark(path, raw, repaired)
            if not raw:
                break
        number += 1
        if raw.endswith(b"\n"):
            raw = raw[:-1]
        if raw.endswith(b"\r"):
            raw = raw[:-1]
            repaired[CARRIAGE_RETURN] += 1
        if len(raw) > LONGEST_LINE:
            raise UserError(
                f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MiB. Lines end at \\n only; is this "
                f"text with other line ends, or no text at all?"
            )
        yield raw


def _without_mark(path: str | Path, raw: bytes, repaired: Counter[str]) -> bytes:
    if raw.startswith(_UTF16_MARKS):
        raise UserError(f"{path}, line 1: starts like UTF-16. Convert it with `iconv -f UTF-16 -t UTF-8`.")
    if raw.startswith(_GZIP_MARK):
        raise UserError(f"{path}, line 1: starts like a gzip file; rename it so that it ends in .gz.")
    if raw.startswith(_UTF8_MARK):
        repaired[BYTE_ORDER_MARK] += 1
        return raw[len(_UTF8_MARK) :]
    return raw


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    open_file = gzip.open if path.suffix == ".gz" else open
    # A buffer over gzip's own makes readline run in C rather than once per line in Python.
    with open_file(path, "rb") as raw, io.BufferedReader(cast(io.RawIOBase, raw), 1 << 18) as handle:
        yield handle


def _explain_damage(path: Path, lines_read: int, error: Exception) -> UserError:
    after = f"{path}, after line {lines_read}"
    if isinstance(error, EOFError):
        return UserError(f"{after}: the gzip file ends too early; it was cut short. Fetch or write it again.")
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return UserError(f"{after}: not a valid gzip file ({error}). Fetch or write it again.")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return UserError(f"{after}: cannot be read ({reason}).")
