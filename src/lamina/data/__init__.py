"""Data: from text files to a token store, and from the store to batches that can be reproduced exactly."""
