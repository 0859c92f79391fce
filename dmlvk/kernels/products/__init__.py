"""Sums of products: matrices, convolutions, packed weights, 8-bit integers."""
