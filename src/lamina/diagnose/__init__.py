"""Why a Transformer trains, or does not."""
