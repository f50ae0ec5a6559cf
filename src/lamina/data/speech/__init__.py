"""Speech: recordings, log-mel filterbanks, and SpecAugment."""
