"""Checkpoints of other libraries as runs: one file for each family of models."""
