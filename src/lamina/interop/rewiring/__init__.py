"""`lamina.rewire`: another residual scheme in a model of transformers, in place."""
