"""Tables and summaries on a terminal."""
