"""Why a Transformer trains, or does not: recording, measures, checks and watching."""

from __future__ import annotations

RESULT_VERSION = 1
"""The result version of all measures and checks.

Raise it when one is added, or gives other numbers for the same model. Runs that were diagnosed by another version are
diagnosed again; they are not trained again.
"""
