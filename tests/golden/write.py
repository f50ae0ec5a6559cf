"""Compute all golden values anew and store them: `make golden`.

It refuses where values have changed and no result version was raised, or the other way round; nothing is written then.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from golden import produce, table


def main() -> None:
    present = produce.versions()
    with produce.double_precision(), tempfile.TemporaryDirectory() as folder:
        found = {}
        for name, row in produce.rows().items():
            torch.manual_seed(0)
            found[name] = row.compute(Path(folder))
    before = table.read_table()
    try:
        after, values = table.update(before, table.read_values(), found, present)
    except table.Refused as reason:
        sys.exit(f"{reason}\nNothing was written.")
    table.write_values(values)
    table.write_table(after)
    print("\n".join(f"{row}: stored" for row in after if after[row] != before.get(row)) or "nothing has changed")


if __name__ == "__main__":
    main()
