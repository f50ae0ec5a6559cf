"""Files on disk: atomic writes, locks, JSON lines and progress bars, used by every package above."""
