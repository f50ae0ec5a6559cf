"""One file per quantity: pure functions with the formula and the figure of the paper they make."""
