"""What the host computes."""
