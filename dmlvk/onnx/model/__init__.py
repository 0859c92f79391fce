"""A model's file: read, checked, bounded, and what can be said of it before anything is planned."""
