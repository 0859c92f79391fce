"""Operators whose results depend on windows, regions or neighbours."""
