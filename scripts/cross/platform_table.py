"""The table of platforms: what ran where, filled by scripts that ran it; shown in docs/how-to/install.md and README."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

COLUMNS = ("built", "imported", "operators", "conformance", "bits", "more")
"""What is said of a platform: wheels, where the package was imported, operators run, promises kept, bits as Linux's."""

TITLES = (
    "wheels built",
    "imported and run",
    "operators run",
    "conformance cases kept",
    "bits as on Linux",
    "what else was found",
)


def compared(
    bits: tuple[Mapping[str, str], Mapping[str, str]],
    families: Sequence[subprocess.CompletedProcess[str]],
    ended: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """What scripts in ``scripts/cross`` have said here and there.

    Args:
        bits: digests by operator, of this machine's own Python, and of the other platform.
        families: what ``families.py`` has printed here, and there.
        ended: operators that ended the other platform's process, and what it said last.

    Returns:
        see :func:`comparison`; where a script has said no results, nothing was run, and the line tells what it said.
    """
    lines = [f"{name or 'what comes before operators'} ends the process: {said}" for name, said in ended.items()]
    here, there = bits
    cases = _said(families, "cases", lines)
    result = comparison({name: here[name] for name in here if name not in ended}, there, *cases)
    return {**result, "ended": sorted(ended), "told": "; ".join([result["told"], *lines])}


def comparison(
    here: Mapping[str, str],
    there: Mapping[str, str],
    cases_here: Mapping[str, Mapping[str, str]],
    cases: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """What two platforms have in common.

    Args:
        here: digests of results by operator, where all is well.
        there: the same of the other platform.
        cases_here: ``"sha256"`` and ``"fault"`` of conformance cases, as ``families.py`` tells them.
        cases: the same of the other platform.

    Returns:
        how many operators (``"operators"``) and conformance cases (``"cases"``) were run there; which have other bits
        (``"different"``) and which broke a promise there (``"broken"``); a line for people (``"told"``).
    """
    different = [name for name in here if here[name] != there.get(name)]
    different += [name for name in cases_here if cases_here[name]["sha256"] != cases.get(name, {}).get("sha256")]
    broken = [f"{name} ({case['fault']})" for name, case in cases.items() if case["fault"]]
    told = f"{len(there)} operators and {len(cases)} conformance cases, {len(different)} with other bits than here"
    told += f": {', '.join(different[:10])}" if different else ""
    told += f"; {len(broken)} with a broken promise" + (f": {', '.join(broken[:10])}" if broken else "")
    return {
        "operators": len(there),
        "cases": len(cases),
        "different": sorted(different),
        "broken": broken,
        "told": told,
    }


def _said(
    pair: Sequence[subprocess.CompletedProcess[str]], key: str, lines: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        here, there = (dict(json.loads(done.stdout)[key]) for done in pair)
    except (ValueError, KeyError):
        said = [(done.stderr or done.stdout).strip().splitlines()[-3:] for done in pair]
        lines.append(f"no {key} to compare: {' '.join(word for words in said for word in words)}")
        return {}, {}
    return here, there


def is_well(result: Mapping[str, Any]) -> bool:
    """Whether everything was run, with the same bits, and promises were kept."""
    faults = (*result["different"], *result["broken"], *result.get("ended", ()))
    return bool(result["operators"] and result["cases"]) and not faults


def table_row(result: Mapping[str, Any]) -> dict[str, str]:
    """The columns that follow from a comparison."""
    different, ended = result["different"], result.get("ended", ())
    ran = result["operators"] and result["cases"]
    bits = f"not {', '.join(different)}" if different else "all" if ran else "–"
    kept = result["cases"] - len(result["broken"])
    operators = f"{result['operators']} of {result['operators'] + len(ended)}" if ended else str(result["operators"])
    return {
        "operators": operators,
        "conformance": f"{kept} of {result['cases']}",
        "bits": bits,
        **({"more": f"the driver's compiler ends the process: {'; '.join(ended)}"} if ended else {}),
    }


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


SHORT = ("imported", "operators", "conformance", "bits")
"""The columns of README's table."""


def as_markdown(table: Mapping[str, Mapping[str, str]], columns: Sequence[str] = COLUMNS) -> str:
    """The table for a page.

    Args:
        table: by platform and column.
        columns: those that are shown, of platforms that have one of them.
    """
    table = {name: row for name, row in table.items() if not row.keys().isdisjoint(columns)}
    titles = [title for column, title in zip(COLUMNS, TITLES, strict=True) if column in columns]
    lines = [f"| platform | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
    lines += [f"| {name} | {' | '.join(row.get(column, '–') for column in columns)} |" for name, row in table.items()]
    return "\n".join(lines) + "\n"


_TABLE = re.compile(r"^\| platform \|.*?\n(?!\|)", re.M | re.S)


def with_table(page: str, made: str) -> str:
    """A page's contents with the table as it was measured.

    Raises:
        ValueError: when it has no such table, or several.
    """
    text, places = _TABLE.subn(lambda _: made, page)
    if places != 1:
        raise ValueError(f"a page must have one table of platforms; has {places}")
    return text
