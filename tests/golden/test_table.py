"""The rules of the table: neither values nor result versions change alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden import produce, table
from golden.table import Refused, digest, faults, update
from golden.write import write

SHARED = {"shared path": 1}
B2T = {"shared path": 1, "scheme b2t": 1}
VALUES: dict[str, Any] = {"order/batches": [[1, 2], [3]], "scheme/b2t": {"loss": [2.5, 1.25]}}
PRESENT = {"order/batches": SHARED, "scheme/b2t": B2T}
TABLE = {"order/batches": [(SHARED, digest([[1, 2], [3]]))], "scheme/b2t": [(B2T, digest({"loss": [2.5, 1.25]}))]}
CHANGED = VALUES | {"scheme/b2t": {"loss": [2.5, 1.2]}}


def raised(component: str) -> dict[str, dict[str, int]]:
    return {row: each | ({component: 2} if component in each else {}) for row, each in PRESENT.items()}


def test_what_is_unchanged_stays_as_it_is() -> None:
    assert list(faults(TABLE, VALUES, PRESENT)) == []
    assert update(
        TABLE, VALUES, {"order/batches": [[1, 2], [3]], "scheme/b2t": {"loss": [2.5 + 1e-12, 1.25]}}, PRESENT
    ) == (
        TABLE,
        VALUES,
    )


def test_changed_values_need_a_raised_version() -> None:
    with pytest.raises(Refused, match=r"scheme/b2t has changed .*1\.25.*: raise the result version of .*scheme b2t"):
        update(TABLE, VALUES, CHANGED, PRESENT)
    after, values = update(TABLE, VALUES, CHANGED, raised("scheme b2t"))
    assert after["order/batches"] == TABLE["order/batches"]
    assert after["scheme/b2t"] == [*TABLE["scheme/b2t"], (B2T | {"scheme b2t": 2}, digest(CHANGED["scheme/b2t"]))]
    assert values == CHANGED


def test_a_raised_version_needs_changed_values() -> None:
    with pytest.raises(Refused, match="scheme b2t was raised to 2, but no golden value has changed"):
        update(TABLE, VALUES, VALUES, raised("scheme b2t"))


def test_one_changed_row_is_reason_enough_for_all_that_depend_on_the_version() -> None:
    after, _ = update(TABLE, VALUES, CHANGED, raised("shared path"))
    assert [versions["shared path"] for versions, _ in after["order/batches"]] == [1, 2]
    assert len({hashed for _, hashed in after["order/batches"]}) == 1


def test_a_later_change_needs_another_version() -> None:
    after, values = update(TABLE, VALUES, CHANGED, raised("shared path"))
    with pytest.raises(Refused, match="order/batches has changed"):
        update(after, values, values | {"order/batches": [[3], [1, 2]]}, raised("shared path"))


def test_a_new_row_needs_no_raised_version() -> None:
    after, values = update(TABLE, VALUES, VALUES | {"scheme/mine": [1.0]}, PRESENT | {"scheme/mine": SHARED})
    assert after == TABLE | {"scheme/mine": [(SHARED, digest([1.0]))]}
    assert values == VALUES | {"scheme/mine": [1.0]}


def test_values_beside_the_stored_ones_need_no_raised_version() -> None:
    """As when a measure is new: all others have the values that they had."""
    more = VALUES | {"scheme/b2t": {"loss": [2.5, 1.25], "norm": [1.0]}}
    after, values = update(TABLE, VALUES, more, PRESENT)
    assert after["scheme/b2t"] == [(B2T, digest({"loss": [2.5, 1.25], "norm": [1.0]}))]
    assert values == more
    assert list(faults(after, values, PRESENT)) == []
    with pytest.raises(Refused, match="scheme/b2t has changed"):
        update(TABLE, VALUES, VALUES | {"scheme/b2t": {"loss": [2.5, 1.2], "norm": [1.0]}}, PRESENT)


def test_a_row_that_is_gone_stays_on_record() -> None:
    after, values = update(TABLE, VALUES, VALUES, {"order/batches": SHARED})
    assert after == TABLE
    assert values.keys() == {"order/batches"}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([({"shared path": 2, "scheme b2t": 1}, "a"), (B2T, "b")], "shared path falls"),
        ([(B2T, "a"), (B2T, "b")], "no version rises"),
        ([], "no golden values, or none in the table"),
        ([(B2T, "edited by hand")], "not those of the table"),
        ([(B2T | {"scheme b2t": 2}, digest(VALUES["scheme/b2t"]))], "the table ends with the versions"),
        ([(B2T, "a"), (B2T | {"scheme b2t": 2}, "a")], "scheme b2t was raised to 2, but no golden value"),
    ],
)
def test_tables_that_were_tampered_with(entries: list[Any], message: str) -> None:
    assert any(message in fault for fault in faults(TABLE | {"scheme/b2t": entries}, VALUES, PRESENT))


def test_values_that_were_tampered_with() -> None:
    assert list(faults(TABLE, CHANGED, PRESENT)) == ["scheme/b2t: the stored values are not those of the table"]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    values = VALUES | {"diagnosis/x": {"nothing": None, "nan": float("nan"), "lines": [["fact", 1.5, [2.0]]]}}
    table.write_values(values, tmp_path)
    table.write_table(TABLE, tmp_path)
    assert digest(table.read_values(tmp_path)) == digest(values)
    assert table.read_table(tmp_path) == TABLE


def test_files_without_changes_are_not_written_again(tmp_path: Path) -> None:
    table.write_values(VALUES, tmp_path)
    (tmp_path / "scheme.json").write_text('{"b2t": {"loss": [2.5, 1.25]}}')
    table.write_values(VALUES | {"order/batches": []}, tmp_path)
    assert (tmp_path / "scheme.json").read_text() == '{"b2t": {"loss": [2.5, 1.25]}}'
    assert table.read_values(tmp_path)["order/batches"] == []


def test_writing_adds_what_is_new_and_refuses_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def computed(value: float, version: int = 1) -> None:
        row = produce.Row(("shared path",), lambda folder: {"loss": [value]})
        monkeypatch.setattr(produce, "rows", lambda: {"scheme/mine": row})
        monkeypatch.setattr(produce, "versions", lambda: {"scheme/mine": {"shared path": version}})

    computed(0.1)
    assert write(tmp_path) == ["scheme/mine"]
    assert write(tmp_path) == []
    files = {file: file.read_text() for file in tmp_path.iterdir()}
    computed(0.2)
    with pytest.raises(Refused):
        write(tmp_path)
    assert {file: file.read_text() for file in tmp_path.iterdir()} == files, "nothing was written"
    computed(0.2, version=2)
    assert write(tmp_path) == ["scheme/mine"]
    assert table.read_values(tmp_path) == {"scheme/mine": {"loss": [0.2]}}


@pytest.mark.parametrize(
    ("found", "stored", "same"),
    [
        (1.0, 1.0 + 1e-10, True),
        (1.0, 1.0 + 1e-8, False),
        (1e-17, 0.0, True),
        (1e-6, 1.1e-6, False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (float("inf"), float("inf"), True),
        (None, 0.0, False),
        ("fine", "warning", False),
        ([1.0], [1.0, 2.0], False),
        ((1.0, 2.0), [1.0, 2.0], True),
        ({"a": 1.0}, {"b": 1.0}, False),
    ],
)
def test_differences_are_those_beyond_rounding(found: Any, stored: Any, same: bool) -> None:
    assert (not list(table.differences(found, stored))) == same
