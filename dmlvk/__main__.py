"""``python -m dmlvk`` is ``dmlvk``."""

from dmlvk.cli import main

if __name__ == "__main__":
    main()
