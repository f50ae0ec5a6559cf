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
    PendingClaim("B-02", "b2t-fig3", "The Post-LN Jacobian is J_LN · (I + J_F) (eq. 3)", "exact"),
    PendingClaim("B-03", "b2t-fig3", "The Pre-LN Jacobian is I + J_F · J_LN (eq. 4)", "exact"),
    PendingClaim("B-04", "b2t-fig3", "Post-LN decoder gradients decay exponentially downwards", "figure"),
    PendingClaim("B-05", "b2t-fig3", "Pre-LN gradients are smaller in higher layers", "figure"),
    PendingClaim("B-06", "b2t-fig3", "B2T weakens the decay", "figure"),
    PendingClaim("B-07", "b2t-fig3", "B2T does not remove it", "figure"),
    PendingClaim("B-08", "b2t-fig4", "The drop happens at the layer norms", "figure"),
    PendingClaim("B-28", "b2t-cost", "B2T costs nothing extra; DLCL and Admin do", "said, no number"),
    PendingClaim("B-34", "b2t-table9", "Without norms and weights the forward pass explodes", "said, no number"),
    PendingClaim("B-35", "b2t-table9", "Α and β stop the explosion", "said, no number"),
    PendingClaim("B-36", "b2t-table9", "Α grows up to N = 9, then falls", "9"),
    PendingClaim("B-37", "b2t-table9", "B2T without norms comes close but a little lower", "26.48 against 26.53; 27.10 against 27.30 (table 9 prints the 60-12 row)"),  # noqa: E501
    PendingClaim("R-01", "residual-fig2", "Post-LN input of a norm has squared norm 2d; Pre-LN's grows as k·d", "2; k"),
    PendingClaim("R-02", "residual-fig2", "Post-LN gradients vanish with distance from the output (Theorem 3.1)", "(1/2)^((N−k)/2) · e^√(N−k)"),  # noqa: E501
    PendingClaim("R-03", "residual-fig2", "The factor in front: a product of m matrices I + W has norm about e^√m", "e^√m"),  # noqa: E501
    PendingClaim("R-04", "residual-fig2", "Pre-LN gradients fall with N^-1/2 and hardly depend on k", "√(log(N−k)/N) in the text, log(N−k)/√N in the proof"),  # noqa: E501
    PendingClaim("R-05", "residual-fig2", "The gradient is the sum of a post part and a dual part (eq. 4)", "exact"),
    PendingClaim("R-06", "residual-fig2", "The dual part rules at the bottom, the post part at the top (eq. 5)", "said, no number"),  # noqa: E501
    PendingClaim("R-07", "residual-fig2", "ResiDual has a floor under its gradients", "figure"),
    PendingClaim("R-08", "residual-fig2", "Nothing explodes; the last block's gradient ignores N", "said, no number"),
    PendingClaim("R-09", "residual-fig2", "The block inputs of ResiDual are those of Post-LN", "exact"),
    PendingClaim("R-10", "residual-fig2", "Pre-LN hidden states differ by N(0, ω_k²) (Theorem 3.3)", "formula"),
    PendingClaim("R-11", "residual-fig2", "So the change fades as k^-1/2 (Corollary 3.4)", "−1/2"),
    PendingClaim("R-12", "residual-fig2", "One more Pre-LN block changes the output by N^-1/2 (Corollary 3.5)", "−1/2"),
    PendingClaim("R-13", "residual-fig2", "In Post-LN and ResiDual the change is the same at every depth (Theorem 3.6)", "formula; σ = 1 gives 0.611"),  # noqa: E501
    PendingClaim("R-14", "residual-fig2", "One more ResiDual block always moves the output (Corollary 3.7; the text says Pre-LN)", "the bound"),  # noqa: E501
    PendingClaim("R-15", "residual-fig2", "On a trained model too: Pre-LN fades, ResiDual does not", "figure"),
    PendingClaim("R-16", "residual-fig2", "In Pre-LN the share of a branch falls with its index", "said, no number"),
    PendingClaim("R-17", "residual-fig3", "Adam's update is ill-conditioned at zero gradient (Theorem 3.2)", "3200"),
    PendingClaim("R-18", "residual-fig3", "It still is after 20 steps", "> 300"),
    PendingClaim("R-19", "residual-fig3", "Κ̂ falls as σ_g grows", "figure"),
    PendingClaim("R-20", "residual-fig3", "The estimate at g = 0 is good for all small σ_g", "lines overlap"),
    PendingClaim("R-21", "residual-fig3", "Warm-up over 4000 steps cures it", "about 1 (0.8)"),
    PendingClaim("R-22", "residual-fig3", "A large ε makes Adam less adaptive", "said, no number"),
    PendingClaim("R-23", "residual-table2", "IWSLT 6-6: ResiDual is best, Post-LN above Pre-LN", "35.63; 35.37 35.12 35.34 35.50 34.88"),  # noqa: E501
    PendingClaim("R-24", "residual-table2", "IWSLT 12-12: Post-LN fails, ResiDual is best", "36.09; 35.18 35.39 35.67 35.45"),  # noqa: E501
    PendingClaim("R-25", "residual-table2", "Deep Pre-LN does not reach shallow Post-LN", "35.18 against 35.37"),
    PendingClaim("R-26", "residual-table2", "DeepNet and Admin gain little over the plain models", "0.21, 0.49 against 0.91"),  # noqa: E501
    PendingClaim("R-27", "residual-table2", "Still deeper models overfit IWSLT", "said, no number"),
    PendingClaim("R-37", "residual-fp16", "LN(η r) = LN(r) for any η > 0", "exact"),
    PendingClaim("R-38", "residual-fp16", "The dual stream can leave the fp16 range; scaling cures it", "said, no number"),  # noqa: E501
    PendingClaim("R-39", "residual-table2", "No extra parameters", "said \"none\""),
    PendingClaim("A-06", "admin-fig3", "Post-LN encoders do not vanish (Theorem 1)", "Var[Δx_{i−1}] ≥ Var[Δx_i]"),
    PendingClaim("A-07", "admin-fig3", "Pre-LN gradients never shrink downwards (Remark 1)", "inequality"),
    PendingClaim("A-08", "admin-fig3", "Only Post-LN decoders vanish", "figure"),
    PendingClaim("A-09", "admin-fig3", "The loss of gradient happens at cross-attention", "figure"),
    PendingClaim("A-10", "admin-fig3", "FFN branch variance is ½ D D_f Var[w1] Var[w2]", "formula"),
    PendingClaim("A-11", "admin-table1", "A Post-LN encoder with a Pre-LN decoder does not vanish", "said, no number"),
    PendingClaim("A-12", "admin-table1", "Yet it diverges, so vanishing is not the cause", "table 1"),
    PendingClaim("A-13", "admin-fig5", "Gradients of attention matrices are unbalanced even in Pre-LN", "figure 11"),
    PendingClaim("A-14", "admin-fig5", "Adam evens the updates out", "figures 5, 11"),
    PendingClaim("A-15", "admin-fig5", "SGD cannot train Transformers well, lacking that", "said, no number"),
    PendingClaim("A-16", "admin-fig7", "Shares of branches square to one at the start", "1"),
    PendingClaim("A-17", "admin-fig7", "Pre-LN: a fresh layer relies equally on all earlier branches", "1/i for equal variances and no embedding"),  # noqa: E501
    PendingClaim("A-18", "admin-fig7", "Post-LN: it relies most on its own branch, equally at all depths", "constant"),
    PendingClaim("A-19", "admin-fig7", "Pre-LN learns to rely more on its own branch, but less than Post-LN", "figure 7"),  # noqa: E501
    PendingClaim("A-20", "admin-fig7", "Pre-LN variance grows with depth", "said, no number"),
    PendingClaim("A-21", "admin-fig4", "Output change is C·Σβ²_ii (Theorem 2)", "formula"),
    PendingClaim("A-22", "admin-fig4", "Post-LN: linear in the number of sub-layers (Corollary 2)", "0.99"),
    PendingClaim("A-23", "admin-fig4", "Pre-LN: logarithmic (Corollary 1)", "0.99"),
    PendingClaim("A-24", "admin-fig4", "Admin grows like Pre-LN", "figure"),
    PendingClaim("A-25", "admin-fig4", "For an optimiser step the gap is far larger", "orders of magnitude; 0.75"),
    PendingClaim("A-26", "admin-fig4", "The constant C falls as training goes on", "said, no number"),
    PendingClaim("A-27", "admin-fig7", "Admin's start gives β²_ii about 1/i", "1/i"),
    PendingClaim("A-28", "admin-fig7", "A small batch is enough to profile", "first batch, ≤ 8192 tokens"),
    PendingClaim("A-29", "admin-fig8", "Admin at the start has no over-large shares; after training more than Pre-LN", "figure 8"),  # noqa: E501
    PendingClaim("A-30", "admin-fold", "Admin folds into Post-LN without change", "exact"),
    PendingClaim("A-31", "admin-fold", "Scaling the start weights instead of keeping ω is as good on IWSLT", "said, no number"),  # noqa: E501
    PendingClaim("A-32", "admin-fold", "But unstable in half precision", "said, no number"),
    PendingClaim("A-33", "admin-fig3", "Admin vanishes like Post-LN and converges all the same", "said, no number"),
    PendingClaim("A-49", "admin-table4", "Model sizes", "37 M; 63, 107, 151 M; 67, 262 M"),
    PendingClaim("A-50", "admin-table4", "A deep narrow Admin model beats published wider ones", "43.80 against 41.2–43.48"),  # noqa: E501
    PendingClaim("A-51", "admin-fig7", "A branch with larger variance takes a larger share and shrinks the others", "said, no number"),  # noqa: E501
)
# fmt: on
