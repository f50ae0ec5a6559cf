"""Why a Transformer trains, or does not: recording, measures, checks and watching."""
