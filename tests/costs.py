"""What tests take of the processor, by which tests take turns in CI, and which of them the quick command can afford.

``tests/costs.json`` has for each test function what one of its tests takes, measured: ``scripts/test.sh --measure``
writes it, of tests as ``--all`` has them. :func:`affordable` cuts what takes most: no function's tests take longer
together than a limit that follows from the budget and from what all functions take. So a new expensive test makes
others fewer, not the command longer. What is not in the file is taken to cost nothing, until it is measured.
"""

from __future__ import annotations

import bisect
import collections
import json
import os
import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.effort import shown

FILE = Path(__file__).with_name("costs.json")

MEASURES = os.environ.get("DMLVK_TEST_MEASURE") == "1"
"""Whether this command measures what the quick command can afford: a few tests of each function."""

BUDGET = 72.0
"""Seconds of a processor core for what the file has, without the cases of operators, which always run.

They take as long again, and so do what is not in the file, and to begin and hand out tests. Together it is less than
three minutes of two cores, also where no kernel was compiled before.
"""

CHEAP = 0.05  # Seconds; a function of which a test takes less is not in the file

CHEAP_TOGETHER = 0.3  # Nor is one whose tests take less than so many seconds together

FAR_BEYOND = 8.0  # Of a function one test runs, unless it takes so many times as long as all tests of a function may

_Item = TypeVar("_Item", bound=Any)


def read(file: Path = FILE) -> dict[str, float]:
    """Seconds of a processor core that a test of each function takes, by the function's node identifier."""
    by_file: dict[str, dict[str, float]] = json.loads(file.read_text("utf-8"))
    return {f"{path}::{name}": seconds for path, of_file in by_file.items() for name, seconds in of_file.items()}


def write(seconds: Mapping[str, float], counts: Mapping[str, int], file: Path = FILE) -> None:
    """Puts what tests took, by their node identifiers, in place of the file's entries for their functions."""
    measured = _means(seconds)
    cheap = {name for name, cost in measured.items() if cost * counts.get(name, 1) < CHEAP_TOGETHER}
    costs = {name: cost for name, cost in (read(file) | measured).items() if name not in cheap}
    by_file: collections.defaultdict[str, dict[str, float]] = collections.defaultdict(dict)
    for function, cost in sorted(costs.items()):
        path, _, name = function.partition("::")
        if cost >= CHEAP and (file.parent.parent / path).exists():
            by_file[path][name] = float(f"{cost:.2g}")
    entries = (f"{json.dumps(path)}: {json.dumps(of_file)}" for path, of_file in by_file.items())
    file.write_text("{\n" + ",\n".join(entries) + "\n}\n", "utf-8")


def not_measured(seconds: Mapping[str, float], costs: Mapping[str, float], fewest: float = 1.0) -> dict[str, float]:
    """Functions of which a test takes at least so many seconds, and the file says nothing."""
    return {name: mean for name, mean in _means(seconds).items() if mean >= fewest and name not in costs}


def _means(seconds: Mapping[str, float]) -> dict[str, float]:
    measured: collections.defaultdict[str, list[float]] = collections.defaultdict(list)
    for test, taken in seconds.items():
        measured[function_of(test)].append(taken)
    return {function: statistics.fmean(taken) for function, taken in measured.items()}


def function_of(test: str) -> str:
    """A test's node identifier without its parameters."""
    return test.partition("[")[0]


def affordable(
    items: Sequence[_Item], costs: Mapping[str, float], budget: float = BUDGET
) -> tuple[list[_Item], list[_Item]]:
    """Of tests so many that they take no longer than a budget together, and what is left out.

    Every file has at least one of its tests; those marked ``each_operator`` all run, beside the budget. Of a function's
    tests those come first that show values of parameters which the others do not.

    Args:
        costs: seconds that a test of a function takes; 0 where it is missing.
    """
    functions: collections.defaultdict[str, list[_Item]] = collections.defaultdict(list)
    for item in items:
        functions[function_of(item.nodeid)].append(item)
    limit = sum(costs.get(name, 0.0) * len(alike) for name, alike in functions.items())  # then all of them run
    limits = [limit]
    while limits[-1] >= CHEAP:  # below it not even one test of each file can be afforded
        limits.append(0.95 * limits[-1])

    def fits(limit: float) -> bool:
        counts = _counts(functions, costs, limit).items()
        return sum(costs.get(name, 0.0) * count for name, count in counts if not _is_whole(functions[name])) <= budget

    limit = limits[min(bisect.bisect_left(limits, True, key=fits), len(limits) - 1)]
    taken: set[int] = set()
    for name, count in _counts(functions, costs, limit).items():
        alike = functions[name]
        taken |= {id(item) for item in (alike if count == len(alike) else _various(alike, count))}
    return [item for item in items if id(item) in taken], [item for item in items if id(item) not in taken]


def _counts(functions: Mapping[str, Sequence[Any]], costs: Mapping[str, float], limit: float) -> dict[str, int]:
    """How many tests of each function run when those of none may take longer than a limit together."""
    counts: dict[str, int] = {}
    cheapest: dict[str, str] = {}
    for name, items in functions.items():
        cost = costs.get(name, 0.0)
        counts[name] = len(items)
        if cost * len(items) > limit and not _is_whole(items):
            counts[name] = max(int(limit / cost), int(cost <= FAR_BEYOND * limit))
        file = name.partition("::")[0]
        if file not in cheapest or cost < costs.get(cheapest[file], 0.0):
            cheapest[file] = name
    for name in cheapest.values():
        counts[name] = max(counts[name], 1)
    return counts


def _is_whole(items: Sequence[Any]) -> bool:
    """Whether none of a function's tests is left out."""
    return items[0].get_closest_marker("each_operator") is not None


def _various(items: Iterable[_Item], count: int) -> list[_Item]:
    """Of a function's tests so many, each of which shows as much as possible that those before it do not."""
    left = sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode()))
    shows = {id(item): shown(getattr(getattr(item, "callspec", None), "params", {})) for item in left}
    seen: set[object] = set()
    chosen: list[_Item] = []
    while left and len(chosen) < count:
        best = max(left, key=lambda item: len(shows[id(item)] - seen))
        left.remove(best)
        seen |= shows[id(best)]
        chosen.append(best)
    return chosen


def fast_first(items: Iterable[_Item], costs: Mapping[str, float]) -> list[_Item]:
    """The tests that take next to no time, then the others, by files: what fails is mostly seen at once."""
    return sorted(
        items, key=lambda item: sum(costs.get(function_of(item.nodeid), 0.0) >= bound for bound in (CHEAP, 1.0))
    )


def few_of_each(items: Sequence[_Item], count: int = 2) -> tuple[list[_Item], list[_Item]]:
    """Of each function so many tests, from which its costs follow, and what is left out."""
    functions: collections.defaultdict[str, list[_Item]] = collections.defaultdict(list)
    for item in items:
        functions[function_of(item.nodeid)].append(item)
    taken = {id(item) for alike in functions.values() for item in _various(alike, count)}
    return [item for item in items if id(item) in taken], [item for item in items if id(item) not in taken]
