"""Files on disk: atomic writes, locks, hashes, text and JSON lines, archives and progress bars."""
