"""The quick command runs what it can afford: by what tests were measured to take, and never without a file's tests."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import costs


@dataclasses.dataclass(eq=False)
class _Item:
    """As much of pytest's as is asked for."""

    nodeid: str
    callspec: Any = None
    marker: str | None = None

    def get_closest_marker(self, name: str) -> str | None:
        return self.marker if self.marker == name else None


def _tests(function: str, values: str, other_values: str = "-", marker: str | None = None) -> list[_Item]:
    return [
        _Item(f"{function}[{a}-{b}]", SimpleNamespace(params={"first": a, "second": b}), marker)
        for a in values
        for b in other_values
    ]


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
    assert sum(SECONDS.get(name, 0.0) * count for name, count in counts.items()) <= 60.0


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
    assert json.loads(file.read_text("utf-8")) == {
        "tests/a.py": {"one": 1.5, "two": 4.0},
        "tests/b.py": {"three": 0.1},
    }
    assert costs.read(file) == {"tests/a.py::one": 1.5, "tests/a.py::two": 4.0, "tests/b.py::three": 0.1}


def test_expensive_tests_that_were_never_measured_are_told() -> None:
    taken = {"a::new[x]": 4.0, "a::new[y]": 0.0, "a::cheap": 0.2, "a::known": 9.0}
    assert costs.not_measured(taken, {"a::known": 0.1}) == {"a::new": 2.0}
