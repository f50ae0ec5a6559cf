"""Trained runs in the formats of other libraries, one file for each format."""
