"""The commands: each parses its arguments, calls one function and prints its result.

What a command needs is imported when it is called, so that `lamina --help` does not wait for torch.
"""
# ruff: noqa: F401, I001  `lamina --help` lists the commands in the order of these imports.

from lamina.cli.app import app, main as main
from lamina.cli.start import demo, init, schemes, prepare, doctor
from lamina.cli.training import train, plan, compare, average
from lamina.cli.models import evaluate, generate, predict, export
from lamina.cli.reports import runs, report, diagnose
from lamina.cli.studies import study
