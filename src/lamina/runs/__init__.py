"""Runs: train, resume, load, evaluate, generate, diagnose, average, plan."""
