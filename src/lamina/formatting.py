"""Numbers as people read them: few digits, powers of ten as signs, durations and sizes in fitting units."""

from __future__ import annotations

import math

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def short(value: float, digits: int = 3) -> str:
    """0.0123, 1,450, 4.1·10⁻⁵; what is no number says so."""
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


def with_spread(mean: float, spread: float | None) -> str:
    return short(mean) if spread is None else f"{short(mean)} ± {short(spread, 2)}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{short(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60:,} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"


def size(count: float) -> str:
    """Of memory."""
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def count(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`, `2 batches`."""
    plural = noun + ("es" if noun.endswith("h") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def _with_minus(text: str) -> str:
    return text.replace("-", "−", 1) if text.startswith("-") else text
