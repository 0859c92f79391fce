"""Help for the rest of the package that knows nothing of devices or operators."""
