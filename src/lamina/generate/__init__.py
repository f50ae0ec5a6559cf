"""Generation: beam search, greedy decoding, sampling and scoring."""
