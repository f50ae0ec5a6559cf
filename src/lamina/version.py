"""The version of the package: what run folders are stamped with."""

__version__ = "0.1.0"
