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
    PendingClaim("X-01", "xiong-fig2", "Post-LN with Adam needs warm-up", "8.45 against about 34"),
    PendingClaim("X-02", "xiong-fig2", "The same on validation loss", "figure"),
    PendingClaim("X-03", "xiong-fig2", "A short warm-up costs quality, more so at a higher rate", "31.16; 2.77"),
    PendingClaim("X-04", "xiong-fig2", "SGD needs warm-up too, so Adam is not the cause", "just above 0 without"),
    PendingClaim("X-05", "xiong-fig2", "SGD is far behind Adam", "figure"),
    PendingClaim("X-17", "xiong-fig3", "After warm-up the Post-LN gradients are small", "figure"),
    PendingClaim("X-18", "xiong-fig4", "Pre-LN without warm-up matches Post-LN with it", "about 34; loss about 4"),
    PendingClaim("X-19", "xiong-fig4", "Pre-LN converges faster at equal peak rate", "9 against 15"),
    PendingClaim("X-20", "xiong-fig4", "The same on WMT, at 7e-4 and 1.5e-3", "figure"),
    PendingClaim("X-21", "xiong-fig4", "RAdam trains Post-LN without warm-up", "figure"),
    PendingClaim("X-22", "xiong-fig4", "For Pre-LN the optimiser hardly matters", "figure"),
    PendingClaim("X-23", "xiong-fig5", "Pre-LN BERT trains without warm-up and gets there sooner", "500k against 700k (the text swaps the two)"),  # noqa: E501
    PendingClaim("X-24", "xiong-fig5", "The updates saved exceed the warm-up itself", "200k against 10k"),
    PendingClaim("X-25", "xiong-fig5", "Post-LN BERT diverges at the rate Pre-LN uses", "diverged"),
    PendingClaim("X-26", "xiong-fig5", "Pre-LN is ahead on MRPC and RTE at early checkpoints", "figure"),
    PendingClaim("S-09", "xiong-fig6", "A small fixed rate trains Post-LN without warm-up, slowly", "about 4.3"),
    PendingClaim("S-10", "xiong-fig5", "Fine-tuning accuracy depends on the seed", "95 % interval shown"),
    PendingClaim("B-01", "b2t-fig1", "18-18 Post-LN does not train; Pre-LN and B2T do", "failed"),
    PendingClaim("B-02", "b2t-fig3", "The Post-LN Jacobian is J_LN · (I + J_F) (eq. 3)", "exact"),
    PendingClaim("B-03", "b2t-fig3", "The Pre-LN Jacobian is I + J_F · J_LN (eq. 4)", "exact"),
    PendingClaim("B-04", "b2t-fig3", "Post-LN decoder gradients decay exponentially downwards", "figure"),
    PendingClaim("B-05", "b2t-fig3", "Pre-LN gradients are smaller in higher layers", "figure"),
    PendingClaim("B-06", "b2t-fig3", "B2T weakens the decay", "figure"),
    PendingClaim("B-07", "b2t-fig3", "B2T does not remove it", "figure"),
    PendingClaim("B-08", "b2t-fig4", "The drop happens at the layer norms", "figure"),
    PendingClaim("B-09", "b2t-fig5", "Pre-LN: shallow outputs resemble the final one more than in Post-LN", "figure"),
    PendingClaim("B-10", "b2t-fig5", "B2T keeps the Post-LN pattern", "figure"),
    PendingClaim("B-11", "b2t-ablation", "A connection over all norms, the last included, does harm", "said, no number"),  # noqa: E501
    PendingClaim("B-12", "b2t-table1", "6-6: Post-LN beats Pre-LN on every test year", "26.59 against 26.10"),
    PendingClaim("B-13", "b2t-table1", "6-6: B2T beats Pre-LN on every test year", "26.53 against 26.10"),
    PendingClaim("B-14", "b2t-table1", "6-6: B2T equals Post-LN", "26.53, 26.59"),
    PendingClaim("B-15", "b2t-table1", "18-18: B2T beats Pre-LN on every year", "27.30 against 26.57"),
    PendingClaim("B-16", "b2t-table1", "60-12: Post-LN fails, B2T beats Pre-LN", "27.33 against 26.42"),
    PendingClaim("B-17", "b2t-table1", "Depth pays for B2T", "27.30 against 26.53"),
    PendingClaim("B-18", "b2t-fig6", "18-18: B2T's validation loss stays below Pre-LN's", "figure"),
    PendingClaim("B-19", "b2t-table2", "Headlines 6-6: Post-LN beats Pre-LN, B2T equals Post-LN", "38.57/19.37/35.79; 38.27/19.29/35.39; 38.43/19.37/35.72"),  # noqa: E501
    PendingClaim("B-20", "b2t-table2", "Headlines 18-18: Post-LN fails, B2T beats Pre-LN", "39.61/20.28/36.66 against 38.97/19.94/35.99"),  # noqa: E501
    PendingClaim("B-21", "b2t-table3", "Language model, 6 layers: Post-LN and B2T beat Pre-LN", "20.24/21.22, 20.50/21.47, 20.98/21.93"),  # noqa: E501
    PendingClaim("B-22", "b2t-table3", "Language model, 16 layers: Post-LN fails, B2T beats Pre-LN", "18.38/19.20 against 18.53/19.24"),  # noqa: E501
    PendingClaim("B-23", "b2t-table4", "Speech 6-6: Post-LN and B2T beat Pre-LN on all four sets", "3.78 8.76 4.19 8.74; 3.69 8.97 3.86 8.94; 3.89 9.69 4.22 9.65"),  # noqa: E501
    PendingClaim("B-24", "b2t-table4", "Speech 12-6: Post-LN fails; B2T wins on \"other\", equals on \"clean\"", "3.26 7.74 3.48 7.68 against 3.21 7.91 3.49 8.22"),  # noqa: E501
    PendingClaim("B-25", "b2t-table5", "6-6: B2T has the best average of five methods", "26.53; 26.52, 26.43, 26.38, 26.49"),  # noqa: E501
    PendingClaim("B-26", "b2t-table5", "18-18: likewise, and all five train", "27.30; 26.90, 26.94, 27.13, 26.86"),
    PendingClaim("B-27", "b2t-table6", "Headlines: B2T is the best of the five", "table 6 (numbers missing from the stored text)"),  # noqa: E501
    PendingClaim("B-28", "b2t-cost", "B2T costs nothing extra; DLCL and Admin do", "said, no number"),
    PendingClaim("B-29", "b2t-table5", "T-Fixup diverges with the common hyper-parameters", "said, no number"),
    PendingClaim("B-30", "b2t-fig8", "Post-LN trains at 12-12 and fails from 18-18", "figure"),
    PendingClaim("B-31", "b2t-fig8", "B2T beats Pre-LN at every depth up to 100 layers", "figure"),
    PendingClaim("B-32", "b2t-fig8", "Beyond 18-18 depth brings nothing", "figure"),
    PendingClaim("B-33", "b2t-fig9", "36-36 overfits", "figure"),
    PendingClaim("B-34", "b2t-table9", "Without norms and weights the forward pass explodes", "said, no number"),
    PendingClaim("B-35", "b2t-table9", "Α and β stop the explosion", "said, no number"),
    PendingClaim("B-36", "b2t-table9", "Α grows up to N = 9, then falls", "9"),
    PendingClaim("B-37", "b2t-table9", "B2T without norms comes close but a little lower", "26.48 against 26.53; 27.10 against 27.30 (table 9 prints the 60-12 row)"),  # noqa: E501
    PendingClaim("B-38", "b2t-table10", "The same on headlines", "table 10 (numbers missing)"),
    PendingClaim("B-39", "b2t-table1", "SacreBLEU is lower than tokenised BLEU on the same output", "said, no number"),
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
    PendingClaim("R-28", "residual-table3", "WMT 6-6: ResiDual is best on average and on every year but 2016", "26.85"),
    PendingClaim("R-29", "residual-table3", "WMT 18-18: best on all seven years, Post-LN fails", "27.65 (Pre-LN 26.57)"),  # noqa: E501
    PendingClaim("R-30", "residual-table3", "18-18 Pre-LN is no better than 6-6 Post-LN", "26.57, 26.59"),
    PendingClaim("R-31", "residual-table4", "Multilingual 18-18: ResiDual beats Pre-LN in both directions, Post-LN fails", "28.7 33.4 31.0 against 27.9 32.8 30.3"),  # noqa: E501
    PendingClaim("R-32", "residual-table4", "18 ResiDual layers do the work of 100 DeepNet layers", "31.0 against 31.1"),  # noqa: E501
    PendingClaim("R-33", "residual-table5", "Post-LN fails without warm-up under both decays", "failed"),
    PendingClaim("R-34", "residual-table5", "Pre-LN trains without warm-up but loses about 3 points", "35.12→32.28/32.26; 35.18→31.82/31.85"),  # noqa: E501
    PendingClaim("R-35", "residual-table5", "ResiDual 6-6 is at least as good without warm-up", "35.63→35.76/35.96"),
    PendingClaim("R-36", "residual-table5", "ResiDual 12-12 trains without warm-up, slightly lower", "36.09→35.57/35.72"),  # noqa: E501
    PendingClaim("R-37", "residual-fp16", "LN(η r) = LN(r) for any η > 0", "exact"),
    PendingClaim("R-38", "residual-fp16", "The dual stream can leave the fp16 range; scaling cures it", "said, no number"),  # noqa: E501
    PendingClaim("R-39", "residual-table2", "No extra parameters", "said \"none\""),
    PendingClaim("A-01", "admin-fig10", "Pre-LN converges in the whole grid", "15"),
    PendingClaim("A-02", "admin-fig10", "Post-LN diverges in about half of it", "7 of 15"),
    PendingClaim("A-03", "admin-fig10", "Where Post-LN converges it mostly beats Pre-LN", "7 of 8"),
    PendingClaim("A-04", "admin-fig10", "Admin converges everywhere and beats Pre-LN", "15 of 15 in the figure"),
    PendingClaim("A-05", "admin-fig10", "Admin's best equals Post-LN's best", "35.89, 35.87"),
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
    PendingClaim("A-34", "admin-table2", "IWSLT small: the three are alike", "35.64 ± 0.23, 35.50 ± 0.04, 35.67 ± 0.15"),  # noqa: E501
    PendingClaim("A-35", "admin-table2", "WMT En-De 6-6: Admin, Post-LN, Pre-LN in this order", "27.90 27.80 27.27"),
    PendingClaim("A-36", "admin-table2", "12-12 and 18-18: Post-LN fails, Admin beats Pre-LN", "28.58/28.26; 29.03/28.38"),  # noqa: E501
    PendingClaim("A-37", "admin-table2", "Admin gains at least as much from depth as Pre-LN", "1.13 against 1.11"),
    PendingClaim("A-38", "admin-table2", "En-Fr 6-6: the same order", "41.47 41.29 40.74"),
    PendingClaim("A-39", "admin-table2", "En-Fr 60-12: Post-LN fails, Admin beats Pre-LN", "43.80 against 43.10"),
    PendingClaim("A-40", "admin-table2", "En-De 60-12 with Admin goes further", "30.1"),
    PendingClaim("A-41", "admin-fig1", "6 layers: Pre-LN is faster early and worse late than Post-LN", "figure 1"),
    PendingClaim("A-42", "admin-fig1", "Admin is as fast as Pre-LN early and best late", "figures 1, 9"),
    PendingClaim("A-43", "admin-warmup", "Longer warm-up does not save 18-18 Post-LN", "failed ×4"),
    PendingClaim("A-44", "admin-inits", "18-18 ReZero, Fixup and LookLinear diverge", "failed ×3"),
    PendingClaim("A-45", "admin-inits", "Half precision and dropout are what upsets Fixup and ReZero", "said, no number"),  # noqa: E501
    PendingClaim("A-46", "admin-table3", "ReZero costs 1 to 2 points on IWSLT", "33.67 ± 0.14, 34.67 ± 0.08 against 35.50"),  # noqa: E501
    PendingClaim("A-47", "admin-table3", "Adding norms to ReZero helps", "34.67 against 33.67"),
    PendingClaim("A-48", "admin-table2", "Attention and activation dropout matter much on IWSLT", "said, no number"),
    PendingClaim("A-49", "admin-table4", "Model sizes", "37 M; 63, 107, 151 M; 67, 262 M"),
    PendingClaim("A-50", "admin-table4", "A deep narrow Admin model beats published wider ones", "43.80 against 41.2–43.48"),  # noqa: E501
    PendingClaim("A-51", "admin-fig7", "A branch with larger variance takes a larger share and shrinks the others", "said, no number"),  # noqa: E501
)
# fmt: on
