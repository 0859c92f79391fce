"""``docs/how-to/install.md``: the table of platforms. The rest of it is written by hand."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.cross.platform_table import as_markdown, read

_TABLE = re.compile(r"^\| platform \|.*?\n(?!\|)", re.M | re.S)


def install_page(page: Path, table: Path) -> str:
    """The page's contents with the table as it was measured.

    Raises:
        ValueError: when it has no such table, or several.
    """
    made, places = _TABLE.subn(lambda _: as_markdown(read(table)), page.read_text(encoding="utf-8"))
    if places != 1:
        raise ValueError(f"{page}: must have one table of platforms; has {places}")
    return made
