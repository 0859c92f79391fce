"""Element-wise operators, and what else computes each element from its place."""
