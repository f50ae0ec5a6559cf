"""Labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from support.reading import fields, read, write


def test_labels_are_numbers_of_their_set(tmp_path: Path) -> None:
    path = write(tmp_path, "pairs.tsv", "a\tb\tyes\nc\td\tno\n")
    columns = {"first": 1, "second": 2, "label": 3}
    assert fields(read("tsv", path, columns=columns, labels=("no", "yes"))) == [("a", "b", 1), ("c", "d", 0)]
    with pytest.raises(UserError, match=r"line 2: label 'no' is not in the set \['nope', 'yes'\]. Did you mean 'nope'"):
        read("tsv", path, columns=columns, labels=("nope", "yes"))
    with pytest.raises(UserError, match="line 1: a label, but no label set"):
        read("tsv", path, columns=columns)
