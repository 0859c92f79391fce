"""SPIR-V modules: read, measured, and rewritten for devices and launches."""
