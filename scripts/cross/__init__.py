"""Wheels for other systems, built here: compilers, Python's headers and import libraries, and wheels as archives."""
