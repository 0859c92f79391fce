"""Decoders: caches that stay on the device, and one plan for all lengths."""
