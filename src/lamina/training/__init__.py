"""Training: schedules, optimisers, and the run folder with its checkpoints."""
