"""The table of platforms in docs/notes/platforms.md: what ran where, by scripts that ran it; other pages have less."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
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


@dataclasses.dataclass(frozen=True)
class Found:
    """What ``results.py`` has told of a platform.

    Attributes:
        operators: digests of results, by case.
        cases: ``"sha256"`` and ``"fault"`` of conformance cases, by name.
        operators_ended: cases of operators that ended the process, and what it said last; ``""`` stands for a process
            that ended before any.
        cases_ended: the same of conformance cases.
        is_cut: whether some were not run because the time was over.
    """

    operators: Mapping[str, str]
    cases: Mapping[str, Mapping[str, str]]
    operators_ended: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cases_ended: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_cut: bool = False

    @property
    def count(self) -> int:
        """How many results there are."""
        return len(self.operators) + len(self.cases)


def compared(here: Found, there: Found) -> dict[str, Any]:
    """What this machine's own Python and another platform have in common.

    Returns:
        see :func:`_comparison`; what ended the other one's process (``"operators_ended"``, ``"cases_ended"``); and how
        many were not run, because the time was over (``"operators_left"``, ``"cases_left"``).
    """
    ended = {**there.operators_ended, **there.cases_ended}
    lines = [f"{name or 'what comes before operators'} ends the process: {said}" for name, said in ended.items()]
    lines += [f"here {name} ends the process: {said}" for name, said in here.operators_ended.items()]
    lines += [f"here {name} ends the process: {said}" for name, said in here.cases_ended.items()]
    operators = {name: digest for name, digest in here.operators.items() if name not in there.operators_ended}
    cases = {name: case for name, case in here.cases.items() if name not in there.cases_ended}
    left = [0, 0]
    if there.is_cut:
        left = [len(operators.keys() - there.operators.keys()), len(cases.keys() - there.cases.keys())]
        operators = {name: digest for name, digest in operators.items() if name in there.operators}
        cases = {name: case for name, case in cases.items() if name in there.cases}
        lines.append(f"{left[0]} operators and {left[1]} cases were not run in the time given")
    result = _comparison(operators, there.operators, cases, there.cases)
    return {
        **result,
        "operators_ended": sorted(there.operators_ended),
        "cases_ended": sorted(there.cases_ended),
        "operators_left": left[0],
        "cases_left": left[1],
        "told": "; ".join([result["told"], *lines]),
    }


def _comparison(
    here: Mapping[str, str],
    there: Mapping[str, str],
    cases_here: Mapping[str, Mapping[str, str]],
    cases: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """What two platforms have in common.

    Args:
        here: digests of results by operator, where all is well.
        there: the same of the other platform.
        cases_here: ``"sha256"`` and ``"fault"`` of conformance cases.
        cases: the same of the other platform.

    Returns:
        how many operators (``"operators"``) and conformance cases (``"cases"``) were run there; which have other bits
        (``"different"``) and which broke a promise there (``"broken"``); a line for people (``"told"``).
    """
    different = [name for name in here if here[name] != there.get(name)]
    different += [name for name in cases_here if cases_here[name]["sha256"] != cases.get(name, {}).get("sha256")]
    broken = [f"{name} ({case['fault']})" for name, case in cases.items() if case["fault"]]
    text = f"{len(there)} operators and {len(cases)} conformance cases, {len(different)} with other bits than here"
    text += f": {', '.join(different[:10])}" if different else ""
    text += f"; {len(broken)} with a broken promise" + (f": {', '.join(broken[:10])}" if broken else "")
    return {
        "operators": len(there),
        "cases": len(cases),
        "different": sorted(different),
        "broken": broken,
        "told": text,
    }


def is_well(result: Mapping[str, Any]) -> bool:
    """Whether everything was run, with the same bits, and promises were kept."""
    faults = (*result["different"], *result["broken"], *_ended(result))
    return bool(result["operators"] and result["cases"]) and not faults


def _ended(result: Mapping[str, Any]) -> list[str]:
    return [*result.get("operators_ended", ()), *result.get("cases_ended", ())]


def table_row(result: Mapping[str, Any]) -> dict[str, str]:
    """The columns that follow from a comparison."""
    ran = result["operators"] and result["cases"]
    bits = f"not {', '.join(result['different'])}" if result["different"] else "all" if ran else "–"
    kept = result["cases"] - len(result["broken"])
    cases = result["cases"] + len(result["cases_ended"])
    left = f", {result['cases_left']} not run" if result["cases_left"] else ""
    of_all = result["operators"] + len(result["operators_ended"]) + result["operators_left"]
    operators = f"{result['operators']} of {of_all}" if of_all > result["operators"] else str(of_all)
    more = []
    if ended := _ended(result):
        more.append(f"the driver's compiler ends the process: {'; '.join(ended)}")
    if result["operators_left"] or result["cases_left"]:
        more.append(f"not run in the time given: {result['operators_left']} operators, {result['cases_left']} cases")
    return {
        "operators": operators,
        "conformance": f"{kept} of {cases}{left}",
        "bits": bits,
        **({"more": "; ".join(more)} if more else {}),
    }


_MISSING = "–"
"""What a cell says of which nothing is known."""


def add_row(page: Path, platform: str, row: Mapping[str, str]) -> None:
    """Puts what was found about a platform into a page's table, beside what is known of it.

    Args:
        page: the page.
        platform: its name.
        row: by column.

    Raises:
        ValueError: when the page has no table of platforms, or several.
    """
    text = page.read_text(encoding="utf-8")
    table = read(text)
    table[platform] = {**table.get(platform, {}), **{column: cell or _MISSING for column, cell in row.items()}}
    page.write_text(with_table(text, as_markdown({name: table[name] for name in sorted(table)})), encoding="utf-8")


def read(page: str) -> dict[str, dict[str, str]]:
    """The whole table of a page, by platform and column; cells of which nothing is known are left out.

    Raises:
        ValueError: when the page has no table of platforms, or several.
    """
    found = _TABLE.findall(page)
    if len(found) != 1:
        raise ValueError(f"a page must have one table of platforms; has {len(found)}")
    rows = (line.strip("|").split("|") for line in found[0].splitlines()[2:])
    cells = ([cell.strip() for cell in row] for row in rows)
    return {
        name: {column: cell for column, cell in zip(COLUMNS, own, strict=True) if cell != _MISSING}
        for name, *own in cells
    }


SHORT = ("imported", "operators", "conformance", "bits")
"""The columns of README's table, whose cells leave out versions of drivers and compilers."""

_VERSIONS = re.compile(r" \((?:LLVM|ACO)[^)]*\)|, Mesa [^,]*")


def as_markdown(table: Mapping[str, Mapping[str, str]], columns: Sequence[str] = COLUMNS) -> str:
    """The table for a page.

    Args:
        table: by platform and column.
        columns: those that are shown, of platforms that have one of them.
    """
    table = {name: row for name, row in table.items() if not row.keys().isdisjoint(columns)}
    titles = [title for column, title in zip(COLUMNS, TITLES, strict=True) if column in columns]
    lines = [f"| platform | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
    for name, row in table.items():
        cells = [row.get(column, _MISSING) for column in columns]
        if columns == SHORT:
            cells = [_VERSIONS.sub("", cell) for cell in cells]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


_TABLE = re.compile(r"^\| platform \|.*?\n(?!\|)", re.M | re.S)


def with_table(page: str, made: str) -> str:
    """A page's contents with the table as it was measured.

    Raises:
        ValueError: when it has no such table, or several.
    """
    text, count = _TABLE.subn(lambda _: made, page)
    if count != 1:
        raise ValueError(f"a page must have one table of platforms; has {count}")
    return text
