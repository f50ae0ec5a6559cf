"""Numbers and names as text: few digits, powers of ten, durations, sizes, and text that is safe to print."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float, digits: int = 3) -> str:
    """A number with a few significant digits: 0.0123, 1,450, 4.1·10⁻⁵, NaN, ∞."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if -4 < int(exponent) < 6:
        decimals = max(0, digits - 1 - int(exponent))
        text = f"{round(value, digits - 1 - int(exponent)):,.{decimals}f}"
        return _with_minus(text.rstrip("0").rstrip(".") if "." in text else text)
    mantissa = mantissa.rstrip("0").rstrip(".")
    return _with_minus(f"{mantissa}·{power_of_ten(int(exponent))}")


def power_of_ten(exponent: int) -> str:
    return "10" + str(exponent).translate(SUPERSCRIPTS)


def short_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Keys of a config, such as `train.epochs`, without their sections, unless two keys are then the same."""
    last = [key.rpartition(".")[2] for key in keys]
    return tuple(key if last.count(end) > 1 else end for key, end in zip(keys, last, strict=True))


def with_spread(mean: float, spread: float | None) -> str:
    """`1.5 ± 0.25`; the mean alone where there is no standard deviation."""
    return short(mean) if spread is None else f"{short(mean)} ± {short(spread, 2)}"


def toml_value(value: float | int | str | bool | tuple[float, ...]) -> str:
    """A value as a config file has it: 3e-4, 0.1, "b2t", true, [0.9, 0.95]. Floats have two digits."""
    match value:
        case tuple():
            return f"[{', '.join(map(toml_value, value))}]"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case float() if value and math.isfinite(value) and not 1e-2 <= abs(value) < 1e4:
            mantissa, exponent = f"{value:.1e}".split("e")
            return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
        case _:
            return f"{float(f'{value:.2g}'):g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """`0.5 s`, `1 min 40 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{short(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60:,} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def size(count: float) -> str:
    """A number of bytes: `296 MiB`, `3.10 GiB`."""
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def count(number: int, noun: str) -> str:
    """A number with its noun in the singular or plural: `1 seed`, `3 seeds`, `2 batches`."""
    plural = noun + ("es" if noun.endswith("h") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def printable(text: str, limit: int = 80) -> str:
    """Text on one line, cut to `limit` characters, without control and direction characters."""
    text = " ".join("".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def with_escapes(text: str) -> str:
    r"""Text in which signs that cannot be seen are written as escapes: a line break as `\n`."""
    return "".join(_escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    invisible = unicodedata.category(sign)[0] in "CZ" and sign != " "
    return sign.encode("unicode_escape").decode() if invisible else sign


def _with_minus(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text
