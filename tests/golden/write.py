"""Compute all golden values again and store them: `make golden`.

It refuses where values have changed and no result version was raised, or the other way round; nothing is written then.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from golden import produce, table


def write(folder: Path = table.FOLDER) -> list[str]:
    """The rows that have a new entry in the table; raises `Refused`."""
    found = {}
    with produce.double_precision(), tempfile.TemporaryDirectory() as temporary:
        for name, row in produce.rows().items():
            torch.manual_seed(0)
            found[name] = row.compute(Path(temporary))
    before = table.read_table(folder)
    after, values = table.update(before, table.read_values(folder), found, produce.versions())
    table.write_values(values, folder)
    table.write_table(after, folder)
    return [row for row in after if after[row] != before.get(row)]


if __name__ == "__main__":
    try:
        print("\n".join(f"{row}: stored" for row in write()) or "nothing has changed")
    except table.Refused as reason:
        sys.exit(f"{reason}\nNothing was written.")
