"""Records of one forward and backward pass: Lamina's own stacks by observers, foreign modules by hooks."""
