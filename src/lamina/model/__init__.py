"""Transformers whose residual scheme you choose.

Shapes, as the trailing comments of this folder write them:

    tokens       all real tokens of a batch in one row; the model computes on nothing else
    sequences    how many sequences those tokens form
    length       the longest of them: the side of the grid that attention scores are computed on
    dim          the model's width
    heads, head_dim, vocabulary, layers
"""
