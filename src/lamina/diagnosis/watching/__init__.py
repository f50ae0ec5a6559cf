"""Following a model while it trains: probes, observations and alarms."""
