"""Operators whose results depend on whole rows."""
