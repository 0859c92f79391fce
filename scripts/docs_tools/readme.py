"""A part of a page that is written by hand: how many of DirectML's operators there are."""

from __future__ import annotations

import re
from pathlib import Path

from dmlvk.operators import OPERATORS

_COUNT = re.compile(r"\d+ of DirectML's (\d+) operators are there")


def readme_page(path: Path) -> str:
    """The file's contents with the right number.

    Raises:
        ValueError: when it does not say so exactly once.
    """
    text = path.read_text(encoding="utf-8")
    counted, count = _COUNT.subn(rf"{len(OPERATORS)} of DirectML's \1 operators are there", text)
    if count != 1:
        raise ValueError(f"{path}: must say once how many of DirectML's operators are there; says it {count} times")
    return counted
