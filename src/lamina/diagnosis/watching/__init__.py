"""Watching a model in training: probes measure a step, observations hold it, alarms warn."""
