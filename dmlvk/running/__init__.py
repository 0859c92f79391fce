"""Runs of compiled operators and graphs: on arrays, on what lies on the device, in chunks."""
