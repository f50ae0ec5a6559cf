"""Figures: panels of lines, maps and their style."""
