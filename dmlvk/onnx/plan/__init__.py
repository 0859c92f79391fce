"""Which nodes the device computes, in which order; and plans, run."""
