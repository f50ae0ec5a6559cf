"""Checkpoints: snapshots of a run, on disk."""
