"""What is shown: one file per table, figure or demonstration."""
