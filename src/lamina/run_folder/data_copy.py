"""What a run keeps of its store, so that it can be used where the store is not: the manifest and the tokenizers.

The examples stay where they are. Training and evaluation need them, generating text does not.
"""

from __future__ import annotations

from pathlib import Path

from lamina.data.store import MANIFEST, Manifest, Store
from lamina.files.atomic import write_file


def keep(store: Store, folder: Path) -> None:
    """Copy them into the run folder, under the names they have in the store."""
    for name in (*sorted({*store.manifest.tokenizers.values()}), MANIFEST):
        write_file(folder / name, (store.folder / name).read_bytes())


def kept_store(folder: Path) -> Store | None:
    """The run's store without its examples; None where a run has kept nothing."""
    return Store(folder, Manifest.load(folder)) if (folder / MANIFEST).is_file() else None
