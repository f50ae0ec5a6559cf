"""Diagnosis of why a Transformer trains or does not: recording, measures, checks and watching."""
