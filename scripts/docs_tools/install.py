"""``docs/how-to/install.md``: the table of platforms. The rest of it is written by hand."""

from __future__ import annotations

from pathlib import Path

from scripts.cross.platform_table import as_markdown, read, with_table


def install_page(page: Path, table: Path) -> str:
    """The page's contents with the table as it was measured.

    Raises:
        ValueError: when it has no such table, or several.
    """
    return with_table(page.read_text(encoding="utf-8"), as_markdown(read(table)))
