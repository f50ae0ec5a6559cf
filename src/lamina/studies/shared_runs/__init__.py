"""Runs that several studies share: declared as configs, trained once, kept as numbers without their weights."""
