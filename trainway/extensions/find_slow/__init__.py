"""Find a slow node: measure pairs of nodes, and compare them with each other."""
