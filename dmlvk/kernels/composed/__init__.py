"""Operators that are made of steps of others."""
