"""Faster ways to compute what the model's other modules state; the model can be understood without them."""
