"""Transformers with a choice of residual scheme.

Shapes, as written in the trailing comments of this folder:

    tokens       all tokens of a batch in one row, without padding; the model computes on these only
    sequences    the number of sequences in the batch
    length       the length of the longest sequence: attention scores are computed on a (sequences, length) grid
    dim          the model's width
    heads, head_dim, vocabulary, layers
"""
