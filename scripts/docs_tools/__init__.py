"""What ``scripts/make_docs.py`` is made of."""
