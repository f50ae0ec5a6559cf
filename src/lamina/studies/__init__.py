"""Comparisons of runs, the demo, and the calibration of the checks."""
