"""Several processes: the process group, DDP and FSDP2."""
