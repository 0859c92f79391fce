"""The quick command leaves out what repeats and runs what it can afford."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dmlvk.conformance.cases import ValueCase, value_cases
from dmlvk.conformance.samples import SampleCase, sample_cases
from dmlvk.operators import OPERATORS
from tests import costs, effort
from tests.effort import (
    LONG,
    MOST_TURNS,
    ROOT,
    OfTurn,
    items_of_number,
    items_of_turns,
    some_of_each_operator,
)


@dataclasses.dataclass(eq=False)
class _Item:
    """As much of pytest's as is asked for."""

    nodeid: str
    marker: str | None = None
    callspec: Any = None

    def get_closest_marker(self, name: str) -> str | None:
        return self.marker if self.marker == name else None


def _items(test: str, marker: str | None, **parameters: str) -> list[Any]:
    """A test for every combination of its parameters' values, which are letters."""
    made: list[Any] = []
    for values in itertools.product(*parameters.values()):
        specification = SimpleNamespace(params=dict(zip(parameters, values, strict=True)), id="-".join(values))
        made.append(_Item(f"{test}[{'-'.join(values)}]" if values else test, marker, specification))
    return made


def test_functions_that_take_long_take_turns_and_all_numbers_together_have_all_tests() -> None:
    long, longer = _items("long", None, case="abcdefg", second="xyz"), _items("longer", None)
    quick = _items("quick", None, first="ab")
    items = [*long, *longer, *quick]
    seconds = {"long": 2 * LONG / len(long), "longer": 100 * LONG, "quick": LONG / 2}
    runs = [items_of_number(items, seconds, number, frozenset())[0] for number in range(11, 11 + MOST_TURNS)]
    assert all(set(first) | set(second) >= {*long, *quick} for first, second in itertools.pairwise(runs))
    assert {len(set(run) & set(long)) for run in runs} == {10, 11}
    assert sum(longer[0] in run for run in runs) == 1
    assert items_of_number(items, seconds, None) == (items, [])


def test_what_a_change_touches_runs_whole() -> None:
    others = [path.relative_to(ROOT) for path in sorted((ROOT / "tests").rglob("test_*.py")) if str(path) != __file__]
    items = [_items(f"{path}::test", None)[0] for path in [Path(__file__).relative_to(ROOT), *others]]
    seconds = {item.nodeid: 100 * LONG for item in items}

    def runs(*changed: str) -> int:
        return sum(items[0] in items_of_number(items, seconds, number, {*changed})[0] for number in range(MOST_TURNS))

    assert runs("tests/unit/test_effort.py") == runs("README.md", "tests/costs.py") == MOST_TURNS
    assert runs() == runs("tests/operators/test_samples.py") == runs("dmlvk/datatypes.py", "tests/effort.py") == 1


def test_a_change_of_kernels_tries_each_operator() -> None:
    cases = sample_cases()
    function = "tests/operators/test_samples.py::test_samples"
    items = _items(function, "each_operator", case="".join(chr(0x4E00 + number) for number in range(len(cases))))
    for item, case in zip(items, cases, strict=True):
        item.callspec.params["case"] = case

    def operators(*changed: str) -> set[Any]:
        taken: list[Any] = items_of_number(items, {function: LONG}, 11, {*changed})[0]
        return {item.callspec.params["case"].desc_class for item in taken}

    assert operators("shaders/matrix/rows.comp") == {case.desc_class for case in cases} > operators("README.md")


@pytest.mark.parametrize("takes_turns", [True, False])
def test_tests_run_on_one_device_each_and_of_a_function_on_all(
    monkeypatch: pytest.MonkeyPatch, takes_turns: bool
) -> None:
    monkeypatch.setattr(effort, "TAKES_TURNS", takes_turns)
    many = _items("many", None, case="abcdefghijklmnop", device="xy")
    marked = _items("marked", "every_driver", device="xy")
    others = _items("single", None, device="xy") + _items("without", None, case="xy") + _items("plain", None)
    pairs = [item for n in range(20) for item in _items(f"pair{n}", None, device="xy", case="ab")]
    found: tuple[list[Any], list[Any]] = items_of_turns([*many, *marked, *others, *pairs], {"x": "x", "y": "y"})
    taken, left_out = found
    if not takes_turns:
        assert (taken, left_out) == ([*many, *marked, *others, *pairs], [])
        return
    assert [item.nodeid for item in taken if item in marked or item.nodeid.startswith(("without", "plain"))] == [
        "marked[x]", "marked[y]", "without[x]", "without[y]", "plain",
    ]  # fmt: skip
    assert sorted(item.callspec.params["case"] for item in taken if item in many) == sorted("abcdefghijklmnop")
    assert {item.callspec.params["device"] for item in taken if item in many} == set("xy")
    assert sum(item.nodeid.startswith("single") for item in taken) == 1
    for n in range(20):
        family = [item.callspec.params for item in taken if item.nodeid.startswith(f"pair{n}[")]
        assert sorted(each["case"] for each in family) == ["a", "b"]
        assert sorted(each["device"] for each in family) == ["x", "y"], "no device is without any"


def test_a_list_of_devices_has_the_one_of_the_test_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "TAKES_TURNS", True)
    monkeypatch.setattr(effort, "TURN", 0)
    monkeypatch.setattr(OfTurn, "_open", [])
    monkeypatch.setattr(OfTurn, "_running", [])
    devices = OfTurn("xy")
    items = _items("many", None, case="abcdefghijklmnop")
    seen = []
    for item in items:
        OfTurn.begin(item)
        assert len(devices) == 1 and OfTurn("xy") == devices
        seen.append(devices[0])
    assert set(seen) == set("xy")
    monkeypatch.setattr(effort, "TURN", MOST_TURNS)
    for item, before in zip(items, seen, strict=True):
        OfTurn.begin(item)
        assert {*devices, before} == set("xy"), "once all have run, each runs on the next device"
    for marker, is_quick in (("every_driver", False), ("each_operator", True)):
        monkeypatch.setattr(effort, "IS_QUICK", is_quick)
        OfTurn.begin(_items("marked", marker)[0])
        assert devices == ["x", "y"]
    monkeypatch.setattr(effort, "TAKES_TURNS", False)
    OfTurn.begin(items[0])
    assert devices == ["x", "y"]


@pytest.mark.parametrize("cases", [value_cases(), sample_cases()], ids=["values", "samples"])
def test_the_quick_command_has_each_operator_and_each_pattern_with_each_data_type(
    cases: list[ValueCase] | list[SampleCase],
) -> None:
    quick: list[ValueCase | SampleCase] = some_of_each_operator(cases)
    operators = list(dict.fromkeys(case.desc_class for case in cases))
    assert [case.desc_class for case in quick[: len(operators)]] == operators
    assert len(quick) < len(cases) / 2
    pairs = [
        {(case.desc_class.declaration.pattern, data_type) for case in some for _, data_type in case.data_types}
        for some in (quick, cases)
    ]
    assert pairs[0] == pairs[1]


def test_the_quick_command_has_every_operator_that_is_declared() -> None:
    quick = [*some_of_each_operator(value_cases()), *some_of_each_operator(sample_cases())]
    assert {case.desc_class for case in quick} == set(OPERATORS.values())


def _tests(function: str, values: str, other_values: str = "-", marker: str | None = None) -> list[_Item]:
    return _items(function, marker, first=values, second=other_values)


def _taken(items: list[_Item], seconds: dict[str, float], budget: float) -> dict[str, int]:
    taken, left_out = costs.affordable(items, seconds, budget)
    assert sorted(item.nodeid for item in [*taken, *left_out]) == sorted(item.nodeid for item in items)
    counts: dict[str, int] = dict.fromkeys((costs.function_of(item.nodeid) for item in items), 0)
    for item in taken:
        counts[costs.function_of(item.nodeid)] += 1
    return counts


SECONDS = {"a::many": 1.0, "a::few": 1.0, "b::slow": 90.0, "c::only": 30.0, "d::cases": 2.0, "d::slower": 5.0}


def _some_items() -> list[_Item]:
    return [
        *_tests("a::many", "abcdefgh", "12345"),
        *_tests("a::few", "ab"),
        *_tests("a::unknown", "abcdefgh"),
        _Item("b::slow"),
        _Item("b::fast"),
        _Item("c::only"),
        *_tests("d::cases", "abcde", marker="each_operator"),
        *_tests("d::slower", "abcde"),
    ]


def test_what_takes_most_is_cut_and_the_rest_is_whole() -> None:
    counts = _taken(_some_items(), SECONDS, 60.0)
    assert counts["a::few"] == 2
    assert counts["a::unknown"] == 8, "what was never measured is tried"
    assert 1 < counts["a::many"] < 40
    assert counts["b::slow"] == 0 and counts["b::fast"] == 1
    assert counts["c::only"] == 1, "no file is without any of its tests"
    assert counts["d::cases"] == 5, "no operator is left out"
    assert counts["d::slower"] >= 1, "one test of a function, unless it is far too slow"
    assert sum(SECONDS.get(name, 0.0) * count for name, count in counts.items() if name != "d::cases") <= 60.0


@pytest.mark.parametrize("budget", [0.0, 45.0, 60.0, 100.0, 1000.0])
def test_more_seconds_are_more_tests_up_to_all(budget: float) -> None:
    less, more = (_taken(_some_items(), SECONDS, seconds) for seconds in (budget, budget + 20.0))
    assert sum(less.values()) <= sum(more.values())
    if budget == 1000.0:
        assert costs.affordable(items := _some_items(), SECONDS, budget) == (items, [])


def test_few_tests_of_a_function_have_many_values() -> None:
    taken, _ = costs.affordable(_tests("a::many", "abcde", "12345"), {"a::many": 1.0}, 5.5)
    assert {item.callspec.params["first"] for item in taken} == set("abcde")
    assert {item.callspec.params["second"] for item in taken} == set("12345")


def test_fast_tests_come_first_and_files_stay_together() -> None:
    seconds = {"a::x": 3.0, "a::y": 0.2, "b::x": 0.2}
    items = [_Item(name) for name in ("a::x", "a::y", "a::z", "b::x", "b::y")]
    assert [item.nodeid for item in costs.fast_first(items, seconds)] == ["a::z", "b::y", "a::y", "b::x", "a::x"]


def test_what_is_measured_again_replaces_what_was_written(tmp_path: Path) -> None:
    for name in ("tests/a.py", "tests/b.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    file = tmp_path / "tests" / "costs.json"
    file.write_text(json.dumps({"tests/a.py": {"one": 3.0, "two": 4.0}, "tests/gone.py": {"one": 5.0}}), "utf-8")
    measured = {"tests/a.py::one[x]": 1.0, "tests/a.py::one[y]": 2.001, "tests/b.py::C::cheap": 0.001}
    costs.write(measured | {"tests/b.py::two": 0.1, "tests/b.py::three": 0.1}, {"tests/b.py::three": 5}, file)
    assert json.loads(file.read_text("utf-8")) == {"tests/a.py": {"one": 1.5, "two": 4.0}, "tests/b.py": {"three": 0.1}}
    assert costs.read(file) == {"tests/a.py::one": 1.5, "tests/a.py::two": 4.0, "tests/b.py::three": 0.1}


def test_expensive_tests_that_were_never_measured_are_told() -> None:
    taken = {"a::new[x]": 4.0, "a::new[y]": 0.0, "a::cheap": 0.2, "a::known": 9.0}
    assert costs.not_measured(taken, {"a::known": 0.1}) == {"a::new": 2.0}
