"""Parts of pages that are written by hand: how many of DirectML's operators there are, and where they ran."""

from __future__ import annotations

import re
from pathlib import Path

from dmlvk.operators import OPERATORS
from scripts.cross.platform_table import SHORT, as_markdown, read, with_table

_COUNT = re.compile(r"\d+ of DirectML's (\d+) operators are there")


def readme_page(path: Path, platforms: Path) -> str:
    """The file's contents with the right number, and the table of platforms as docs/notes/platforms.md has it.

    Raises:
        ValueError: when it does not say so exactly once, or has not one such table.
    """
    text = path.read_text(encoding="utf-8")
    counted, count = _COUNT.subn(rf"{len(OPERATORS)} of DirectML's \1 operators are there", text)
    if count != 1:
        raise ValueError(f"{path}: must say once how many of DirectML's operators are there; says it {count} times")
    return with_short_table(counted, platforms)


def with_short_table(text: str, platforms: Path) -> str:
    """A page's contents whose table of platforms is a short form of another page's.

    Raises:
        ValueError: when one of the pages has no such table, or several.
    """
    return with_table(text, as_markdown(read(platforms.read_text(encoding="utf-8")), SHORT))
