"""The version of the package, which is recorded in run folders."""

__version__ = "0.1.0"
