"""Numbers and names as text."""

from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.formatting import count, duration, printable, short, size, toml_value, with_spread

BACK = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-", ",")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.01234, "0.0123"),
        (1234567.0, "1.23·10⁶"),
        (99999.0, "100,000"),
        (4.1e-5, "4.1·10⁻⁵"),
        (-0.5, "−0.5"),
        (999.6, "1,000"),
        (1450.0, "1,450"),
        (math.nan, "NaN"),
        (-math.inf, "−∞"),
    ],
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


@given(st.floats(-1e300, 1e300))
def test_short_keeps_three_digits(value: float) -> None:
    mantissa, _, power = short(value).translate(BACK).partition("·10")
    assert float(f"{mantissa}e{power or 0}") == pytest.approx(value, rel=5.1e-3)


def test_units() -> None:
    assert [duration(each) for each in (0.5, 42, 61, 7300)] == ["0.5 s", "42 s", "1 min 1 s", "2 h 1 min"]
    assert [size(each) for each in (5 * 2**20, 3 * 2**30)] == ["5 MiB", "3.00 GiB"]
    assert [count(1, "seed"), count(3, "seed"), count(2, "batch")] == ["1 seed", "3 seeds", "2 batches"]
    assert with_spread(1.5, 0.25) == "1.5 ± 0.25"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3e-4, "3e-4"),
        (3.44e-5, "3.4e-5"),
        (0.1, "0.1"),
        (150.0, "150"),
        (12345.0, "1.2e4"),
        (4000, "4000"),
        (True, "true"),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
    ],
)
def test_values_are_written_as_toml(value: float | int | str | bool, text: str) -> None:
    assert toml_value(value) == text
    read = tomllib.loads(f"key = {text}")["key"]
    assert read == (value if isinstance(value, str) else pytest.approx(value, rel=0.05))


def test_printable_text_is_one_short_line() -> None:
    assert printable("a\x00b\x1b[31m\u202ec\n  d") == "a b [31m c d"
    assert printable("x" * 100, limit=10) == "x" * 9 + "…"
