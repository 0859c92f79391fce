"""The table of platforms: what was run where, filled by the scripts that ran it; shown in docs/how-to/install.md."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def compared(
    platform: str, here: subprocess.CompletedProcess[str], there: subprocess.CompletedProcess[str]
) -> dict[str, Any]:
    """What bits.py has said here and there, as a row of the table.

    Args:
        platform: the other one.
        here: of this machine's own Python.
        there: of the other platform.

    Returns:
        the row: how many operators were run, which have other bits, and a line for people.
    """
    found = []
    for done in (here, there):
        try:
            found.append(dict(json.loads(done.stdout))["bits"])
        except (ValueError, KeyError):
            told = (done.stderr or done.stdout).strip().splitlines()[-3:]
            line = f"{platform}: no bits to compare: {' '.join(told)}"
            return {"platform": platform, "operators": 0, "different": [], "told": line}
    different = sorted(name for name in found[0] if found[0][name] != found[1].get(name))
    line = f"{platform}: {len(found[1])} operators, {len(different)} with other bits than here"
    if different:
        line += f": {', '.join(different[:10])}"
    return {"platform": platform, "operators": len(found[1]), "different": different, "told": line}


def add_row(file: Path, row: dict[str, Any]) -> None:
    """Puts a row into the file, in the place of an older one of the platform."""
    rows = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    kept = [each for each in rows if each["platform"] != row["platform"]]
    new = {name: value for name, value in row.items() if name != "told"}
    file.write_text(json.dumps(sorted([*kept, new], key=lambda each: each["platform"]), indent=1) + "\n", "utf-8")
