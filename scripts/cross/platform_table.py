"""The table of platforms: what was run where, filled by the scripts that ran it; shown in docs/how-to/install.md."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS = ("built", "imported", "operators", "bits", "more")
"""What is said of a platform: wheels, where the package was imported, operators run, whether bits are Linux's."""

TITLES = ("wheels built", "imported and run", "operators run", "bits as on Linux", "what else was found")


def compared(here: subprocess.CompletedProcess[str], there: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What bits.py has said here and there.

    Args:
        here: of this machine's own Python.
        there: of the other platform.

    Returns:
        how many operators were run (``"count"``, 0 where one of them has said nothing), which have other bits
        (``"different"``), and a line for people (``"told"``).
    """
    found = []
    for done in (here, there):
        try:
            found.append(dict(json.loads(done.stdout))["bits"])
        except (ValueError, KeyError):
            line = f"no bits to compare: {' '.join((done.stderr or done.stdout).strip().splitlines()[-3:])}"
            return {"count": 0, "different": [], "told": line}
    different = sorted(name for name in found[0] if found[0][name] != found[1].get(name))
    line = f"{len(found[1])} operators, {len(different)} with other bits than here"
    if different:
        line += f": {', '.join(different[:10])}"
    return {"count": len(found[1]), "different": different, "told": line}


def bits_row(result: Mapping[str, Any]) -> dict[str, str]:
    """The columns that follow from a comparison."""
    different = result["different"]
    bits = "all" if result["count"] and not different else f"not {', '.join(different)}" if different else "–"
    return {"operators": str(result["count"]), "bits": bits}


def add_row(file: Path, platform: str, told: Mapping[str, str]) -> None:
    """Puts what was found about a platform into the file, beside what is known of it.

    Args:
        file: the table.
        platform: its name.
        told: by column.
    """
    table = read(file)
    table[platform] = {**table.get(platform, {}), **told}
    text = json.dumps({name: table[name] for name in sorted(table)}, indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def read(file: Path) -> dict[str, dict[str, str]]:
    """The table, by platform and column."""
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def as_markdown(table: Mapping[str, Mapping[str, str]]) -> str:
    """The table for a page."""
    lines = [f"| platform | {' | '.join(TITLES)} |", f"|---|{'---|' * len(TITLES)}"]
    lines += [f"| {name} | {' | '.join(row.get(column, '–') for column in COLUMNS)} |" for name, row in table.items()]
    return "\n".join(lines) + "\n"
