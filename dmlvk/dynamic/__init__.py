"""Sizes that are not known when a plan is made."""
