"""Base initialisation of the weights, which the residual scheme may change afterwards.

    xavier          Xavier-uniform, q, k, v with gain 1/√2, biases 0
    xavier-normal   Xavier-normal, gain 1 everywhere, biases 0 (Xiong et al. 2020, section 3.3)
    fairseq         q, k, v and output as xavier; feed-forward matrices, their biases and those of q, k, v
                    U(±1/√inputs), output bias 0
    normal          N(0, 0.02²), biases 0 (BERT, GPT)
    theory          q = k = 0, all else N(0, 1/d), biases 0 (the setting of Xiong's proofs)

Embeddings are N(0, 1/d), with `normal` N(0, 0.02²); the row of the padding token is zero.
"""

from __future__ import annotations

from typing import Literal

from torch import nn

from lamina.residual.base import Matrix

Initialisation = Literal["xavier", "xavier-normal", "fairseq", "normal", "theory"]
RESULT_VERSIONS = {"fairseq": 2}
"""The result versions above 1, by initialisation: increase one when it draws other values than before."""


def initialise_matrix(matrix: Matrix, init: str) -> None:
    """Draw the base initialisation of a weight matrix. Must be called without gradient."""
    inputs = matrix.weight.shape[1]
    is_feed_forward = matrix.role in ("inner", "gate", "outer")
    is_query_key_value = matrix.role in ("query", "key", "value")
    if matrix.bias is not None:
        nn.init.zeros_(matrix.bias)
    if init == "normal":
        nn.init.normal_(matrix.weight, std=0.02)
    elif init == "theory":
        nn.init.normal_(matrix.weight, std=0.0 if matrix.role in ("query", "key") else inputs**-0.5)
    elif init == "xavier-normal":
        nn.init.xavier_normal_(matrix.weight)
    elif init == "fairseq" and is_feed_forward:
        nn.init.uniform_(matrix.weight, -(inputs**-0.5), inputs**-0.5)
    else:
        nn.init.xavier_uniform_(matrix.weight, gain=2**-0.5 if is_query_key_value else 1.0)
    if init == "fairseq" and matrix.bias is not None and (is_feed_forward or is_query_key_value):
        nn.init.uniform_(matrix.bias, -(inputs**-0.5), inputs**-0.5)


def initialise_table(table: nn.Embedding, init: str, padding_index: int | None = None) -> None:
    """Draw the initialisation of a table of embeddings, positions or segments."""
    nn.init.normal_(table.weight, std=0.02 if init == "normal" else table.embedding_dim**-0.5)
    if padding_index is not None:
        nn.init.zeros_(table.weight[padding_index])
