"""Claims of the papers that no study states yet, so that the ledger lists all 165.

A claim is written once: its row here is deleted when a study states it.
"""

from __future__ import annotations

from typing import NamedTuple


class PendingClaim(NamedTuple):
    """A claim without a predicate."""

    id: str
    study: str
    """The study that it belongs to."""
    statement: str
    paper: str
    """The paper's number or figure."""


# fmt: off
PENDING = (
    PendingClaim("X-23", "xiong-fig5", "Pre-LN BERT trains without warm-up and gets there sooner", "500k against 700k (the text swaps the two)"),  # noqa: E501
    PendingClaim("X-24", "xiong-fig5", "The updates saved exceed the warm-up itself", "200k against 10k"),
    PendingClaim("X-25", "xiong-fig5", "Post-LN BERT diverges at the rate Pre-LN uses", "diverged"),
    PendingClaim("X-26", "xiong-fig5", "Pre-LN is ahead on MRPC and RTE at early checkpoints", "figure"),
    PendingClaim("S-10", "xiong-fig5", "Fine-tuning accuracy depends on the seed", "95 % interval shown"),
    PendingClaim("B-37", "b2t-table9", "B2T without norms comes close but a little lower", "26.48 against 26.53; 27.10 against 27.30 (table 9 prints the 60-12 row)"),  # noqa: E501
    PendingClaim("R-15", "residual-fig2", "On a trained model too: Pre-LN fades, ResiDual does not", "figure"),
    PendingClaim("R-22", "residual-fig3", "A large ε makes Adam less adaptive", "said, no number"),
    PendingClaim("R-23", "residual-table2", "IWSLT 6-6: ResiDual is best, Post-LN above Pre-LN", "35.63; 35.37 35.12 35.34 35.50 34.88"),  # noqa: E501
    PendingClaim("R-24", "residual-table2", "IWSLT 12-12: Post-LN fails, ResiDual is best", "36.09; 35.18 35.39 35.67 35.45"),  # noqa: E501
    PendingClaim("R-25", "residual-table2", "Deep Pre-LN does not reach shallow Post-LN", "35.18 against 35.37"),
    PendingClaim("R-26", "residual-table2", "DeepNet and Admin gain little over the plain models", "0.21, 0.49 against 0.91"),  # noqa: E501
    PendingClaim("R-27", "residual-table2", "Still deeper models overfit IWSLT", "said, no number"),
    PendingClaim("A-12", "admin-table1", "Yet it diverges, so vanishing is not the cause", "table 1"),
    PendingClaim("A-13", "admin-fig5", "Gradients of attention matrices are unbalanced even in Pre-LN", "figure 11"),
    PendingClaim("A-14", "admin-fig5", "Adam evens the updates out", "figures 5, 11"),
    PendingClaim("A-15", "admin-fig5", "SGD cannot train Transformers well, lacking that", "said, no number"),
    PendingClaim("A-19", "admin-fig7", "Pre-LN learns to rely more on its own branch, but less than Post-LN", "figure 7"),  # noqa: E501
    PendingClaim("A-26", "admin-fig4", "The constant C falls as training goes on", "said, no number"),
    PendingClaim("A-29", "admin-fig8", "Admin at the start has no over-large shares; after training more than Pre-LN", "figure 8"),  # noqa: E501
    PendingClaim("A-31", "admin-fold", "Scaling the start weights instead of keeping ω is as good on IWSLT", "said, no number"),  # noqa: E501
    PendingClaim("A-32", "admin-fold", "But unstable in half precision", "said, no number"),
    PendingClaim("A-50", "admin-table4", "A deep narrow Admin model beats published wider ones", "43.80 against 41.2–43.48"),  # noqa: E501
)
# fmt: on
