"""Rules of other programs for text: Moses' words, and the vocabulary of a BERT."""
