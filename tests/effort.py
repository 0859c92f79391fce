"""What the tests leave out: of the drivers, in which a test takes its turn, and of the tests the sweeps.

Whatever is asked for by its path runs whole, and so does everything with ``scripts/test.sh --every-driver``.

``scripts/test.sh --all``, as CI has it, runs all tests, most of them on one driver each, which follows from the test's
name and the number below: of one function's tests each driver has some. Most of such a test's time goes into what the
drivers' compilers do, and a fault of a driver is seldom one test's alone. ``@pytest.mark.every_driver`` stands at those
that run on each: what drivers are expected to do in their own ways.

With a number in ``DMLVK_TEST_TURN``, as CI has it (that of the commit), functions whose tests take long together, by
what was measured (tests/costs.py), take turns: each n-th test runs, others for the next number, ``MOST_TURNS`` commits
have all of them. ``DMLVK_TEST_CHANGED`` has the files that a change touches: of test files among them, and of those
that import one of them which few others import, all tests run. Where operators' sources are among them, of
``each_operator`` a few cases of every operator run with each number.

The quick command, ``scripts/test.sh`` without arguments, has every operator on every driver, data types in turn, and
as much of all else as three minutes of two cores can have: what tests take decides how many of a function's tests run
(tests/costs.py). What repeats a promise that other tests have is left out before. There are three ways to say what
does:

- ``@pytest.mark.sweep``: the test.
- ``@pytest.mark.each_operator``: of the cases of operators all but one or two of each, :func:`some_of_each_operator`.
- ``IS_QUICK``: what a test makes of it, for example fewer random examples.
"""

from __future__ import annotations

import ast
import collections
import functools
import math
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest

IS_QUICK = os.environ.get("DMLVK_TEST_QUICK") == "1"  # Whether this is the quick command

TAKES_TURNS = os.environ.get("DMLVK_TEST_TURNS") == "1"
"""Whether a test runs on one of the drivers, unless it is marked."""

TURN = int(os.environ["DMLVK_TEST_TURN"]) if os.environ.get("DMLVK_TEST_TURN") else None
"""Whose turn it is of what runs with one number in several; ``None``: of all."""

MOST_TURNS = 6  # So many numbers have all tests

LONG = 1.0  # Seconds of a processor core that a function's tests take with one number, if so many are enough

CHANGED = frozenset(os.environ.get("DMLVK_TEST_CHANGED", "").split("\n")) - {""}
"""Files that a change touches: what tests them directly runs whole."""

FEW_IMPORT_IT = 6  # A file that more test files import is none that these are about

SOURCES_OF_OPERATORS = ("shaders/", "dmlvk/kernels/", "dmlvk/operators/", "dmlvk/spirv/")

ROOT = Path(__file__).parent.parent

_Item = TypeVar("_Item")
_Test = TypeVar("_Test", bound=pytest.Item)


_Device = TypeVar("_Device")


class OfTurn(list[_Device]):
    """Of all devices those that the test which runs is run on: a session's fixture, which changes with each test."""

    _open: ClassVar[list[OfTurn[Any]]] = []
    _running: ClassVar[list[pytest.Item]] = []

    def __init__(self, devices: Iterable[_Device]) -> None:
        super().__init__(devices)
        self._every = list(self)
        self._open.append(self)
        if self._running:
            self._choose(*self._running)

    @property
    def every(self) -> list[_Device]:
        """All of them, whichever test runs."""
        return self._every

    def close(self) -> None:
        self._open.remove(self)

    @classmethod
    def begin(cls, item: pytest.Item) -> None:
        """From now on this test runs."""
        cls._running[:] = [item]
        for devices in cls._open:
            devices._choose(item)

    def _choose(self, item: pytest.Item) -> None:
        is_on_each = item.get_closest_marker("every_driver") or (IS_QUICK and item.get_closest_marker("each_operator"))
        number = _hash(item.nodeid) + (TURN or 0) // MOST_TURNS
        self[:] = [self._every[number % len(self._every)]] if TAKES_TURNS and not is_on_each else self._every


def _hash(name: str) -> int:
    return zlib.crc32(name.encode())


def items_of_turns(items: Sequence[_Item], devices: Mapping[str, object]) -> tuple[list[_Item], list[_Item]]:
    """Of the tests that the fixture ``device`` makes for each device, those of the device whose turn it is; the others.

    Which one it is follows from a test's name; where a function has several tests, no device is without any.

    Args:
        devices: the fixture's parameters, by what tests are named after.
    """
    families: dict[str, dict[str, dict[str, _Item]]] = {}
    for item in items if TAKES_TURNS and len(devices) > 1 else []:
        test: Any = item
        callspec = getattr(test, "callspec", None)
        if callspec is None or callspec.params.get("device") not in devices.values():
            continue
        words = callspec.id.split("-")
        name = next((name for name in devices if name in words), None)
        if name is not None and not test.get_closest_marker("every_driver"):
            words.remove(name)
            families.setdefault(test.nodeid.partition("[")[0], {}).setdefault("-".join(words), {})[name] = item
    names = list(devices)
    left_out: set[int] = set()
    for function, cases in families.items():
        turns = {case: _hash(function + case) % len(names) for case in sorted(cases)}
        if len(turns) > 1 and len(set(turns.values())) == 1:
            last = max(turns)
            turns[last] = (turns[last] + 1) % len(names)
        for case, by_device in cases.items():
            turn = names[turns[case]]
            left_out |= {id(item) for name, item in by_device.items() if turn in by_device and name != turn}
    return [item for item in items if id(item) not in left_out], [item for item in items if id(item) in left_out]


def items_of_number(
    items: Sequence[_Test], costs: Mapping[str, float], number: int | None = TURN, changed: Set[str] = CHANGED
) -> tuple[list[_Test], list[_Test]]:
    """Of functions whose tests take long together the tests of a number, and the others.

    Args:
        costs: seconds that a test of a function takes; 0 where it is missing.
        changed: files all of whose tests run; of sources of operators, a few tests of each operator.
    """
    if number is None:
        return list(items), []
    functions: collections.defaultdict[str, list[_Test]] = collections.defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    left_out: set[_Test] = set()
    about = _about({function.partition("::")[0] for function in functions}, changed)
    for function, alike in functions.items():
        turns = min(math.ceil(costs.get(function, 0.0) * len(alike) / LONG), MOST_TURNS)
        if turns > 1 and function.partition("::")[0] not in about:
            alike.sort(key=lambda item: (_hash(item.nodeid), item.nodeid))
            first = _hash(function) + number
            left_out |= {item for place, item in enumerate(alike, first) if place % turns}
    if any(file.startswith(SOURCES_OF_OPERATORS) for file in changed):
        left_out -= set(_few_of_each_operator(items)[0])
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]


def _about(test_files: Iterable[str], changed: Set[str]) -> set[str]:
    """Files of tests that changed, and those that import what changed and what few of them import."""
    touched = {file: changed & _files_of(file) for file in test_files} if changed else {}
    counts = collections.Counter(name for names in touched.values() for name in names)
    return {file for file, names in touched.items() if any(counts[name] <= FEW_IMPORT_IT for name in names)}


@functools.cache
def _files_of(test_file: str) -> Set[str]:
    """A file of tests and those of this repository's that it imports by name."""
    found = {test_file}
    for node in ast.walk(ast.parse((ROOT / test_file).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.replace(".", "/") + ".py" for name in names}
    return found


def _few_of_each_operator(items: Sequence[_Test]) -> tuple[list[_Test], list[_Test]]:
    """Of tests marked ``each_operator`` a case or two of each; the others."""
    of_functions: dict[str, list[tuple[_Test, Any]]] = {}
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", None)
        if parameters is not None and item.get_closest_marker("each_operator"):
            of_functions.setdefault(item.nodeid.partition("[")[0], []).append((item, parameters["case"]))
    kept: list[_Test] = []
    others: list[_Test] = []
    for with_cases in of_functions.values():
        taken = some_of_each_operator([case for _, case in with_cases])
        for item, case in with_cases:
            (kept if case in taken else others).append(item)
    return kept, others


def quick_items(items: Sequence[_Test]) -> tuple[list[_Test], list[_Test]]:
    """What the quick command runs of all tests, as far as it can afford it (tests/costs.py), and what it leaves out."""
    left_out = {item for item in items if item.get_closest_marker("sweep")}
    left_out |= set(_few_of_each_operator([item for item in items if item not in left_out])[1])
    return [item for item in items if item not in left_out], [item for item in items if item in left_out]


def some_of_each_operator(cases: Sequence[Any]) -> list[Any]:
    """Of each operator the case whose data types operators of its pattern before it have least.

    Then those that have what no such case has: every pattern is tried with every data type.
    """
    of_operators: dict[Any, list[Any]] = {}
    for case in cases:
        of_operators.setdefault(case.desc_class, []).append(case)
    used: collections.Counter[Any] = collections.Counter()
    chosen: list[Any] = []
    for desc_class, alike in of_operators.items():
        pattern = desc_class.declaration.pattern

        def uses(case: Any, pattern: str = pattern) -> tuple[int, float]:
            each = [used[pattern, data_type] for data_type in {data_type for _, data_type in case.data_types}]
            return min(each), sum(each) / len(each)

        most = max(len(case.data_types) for case in alike)  # without an optional tensor it is less of an operator
        case = min((case for case in alike if len(case.data_types) == most), key=uses)
        used.update({(pattern, data_type) for _, data_type in case.data_types})
        chosen.append(case)
    for case in cases:
        types = {(case.desc_class.declaration.pattern, data_type) for _, data_type in case.data_types}
        if not types <= used.keys():
            used.update(types)
            chosen.append(case)
    return chosen


def shown(parameters: Mapping[str, Any]) -> set[object]:
    """What a combination of parameters is an example of.

    That is each parameter's value. Of a case of data types it is the data type of each tensor, and which of the
    optional tensors there are. Which device a test runs on does not count: it runs on each of them.
    """
    found: set[object] = set()
    for name, value in parameters.items():
        data_types = getattr(value, "data_types", None)
        if data_types is not None:
            operator = value.desc_class.operator_name
            found |= {(operator, *member) for member in data_types}
            found.add((operator, *(member for member, _ in data_types)))
        elif name != "device":
            found.add((name, _text(value)))
    return found


def _text(value: object) -> str | int:
    """Tells a parameter's values from one another, those too of whose digits Python writes no text."""
    try:
        return repr(value)
    except ValueError:
        return id(value)
