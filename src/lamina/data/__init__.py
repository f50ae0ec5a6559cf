"""Real text in, exact batches out."""
