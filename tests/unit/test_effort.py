"""The quick command leaves out what repeats, and nothing that no other test shows."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from dmlvk.conformance.cases import ValueCase, value_cases
from dmlvk.conformance.samples import SampleCase, sample_cases
from tests import effort
from tests.effort import Turns, covering, quick_items, shown


@dataclasses.dataclass(eq=False)
class _Item:
    """As much of pytest's as is asked for."""

    nodeid: str
    marker: str | None
    callspec: Any

    def get_closest_marker(self, name: str) -> str | None:
        return self.marker if self.marker == name else None


def _items(test: str, marker: str | None, **parameters: str) -> list[Any]:
    """A test for every combination of its parameters' values, which are letters."""
    made: list[Any] = []
    for values in itertools.product(*parameters.values()):
        specification = SimpleNamespace(params=dict(zip(parameters, values, strict=True)))
        made.append(_Item(f"{test}[{'-'.join(values)}]" if values else test, marker, specification))
    return made


def test_quick_tests_show_each_value_of_each_parameter_on_each_device() -> None:
    pairs = _items("pairs", "combinations", device="xy", first="abc", second="defg")
    others = _items("sweep", "sweep") + _items("one", None) + _items("each", None, first="abc", second="de")
    found: tuple[list[Any], list[Any]] = quick_items([*pairs, *others])
    quick, left_out = found
    for device in "xy":
        taken = [item.callspec.params for item in quick if item in pairs and item.callspec.params["device"] == device]
        assert len(taken) == 4
        assert {one["first"] for one in taken} == set("abc")
        assert {one["second"] for one in taken} == set("defg")
    assert [item.nodeid for item in quick if item not in pairs] == [
        "one",
        *(f"each[{a}-{b}]" for a in "abc" for b in "de"),
    ]
    assert sorted(item.nodeid for item in [*quick, *left_out]) == sorted(item.nodeid for item in [*pairs, *others])


@pytest.mark.parametrize("cases", [value_cases(), sample_cases()], ids=["values", "samples"])
def test_the_covering_cases_have_each_data_type_of_each_tensor(cases: list[ValueCase] | list[SampleCase]) -> None:
    chosen = covering([(case, shown({"case": case})) for case in cases])
    every = {(case.desc_class, *member) for case in cases for member in case.data_types}
    assert {(case.desc_class, *member) for case in chosen for member in case.data_types} == every
    present = {(case.desc_class, *(member for member, _ in case.data_types)) for case in cases}
    assert {(case.desc_class, *(member for member, _ in case.data_types)) for case in chosen} == present
    assert len(chosen) < 0.75 * len(cases)


@pytest.mark.parametrize("cases", [value_cases(), sample_cases()], ids=["values", "samples"])
def test_every_operator_takes_turns_on_all_devices(
    cases: list[ValueCase] | list[SampleCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "IS_QUICK", True)
    turns = Turns(cases)
    chosen = covering([(case, shown({"case": case})) for case in cases])
    ran = {case.name: turns.devices(case, "xy") for case in chosen}
    for desc_class in {case.desc_class for case in cases}:
        counts = sorted(len(ran[case.name]) for case in chosen if case.desc_class is desc_class)
        assert counts == [1] * (len(counts) - 1) + [2], desc_class
    assert abs(
        sum(devices == ["x"] for devices in ran.values()) - sum(devices == ["y"] for devices in ran.values())
    ) < 0.4 * len(ran)
    monkeypatch.setattr(effort, "IS_QUICK", False)
    assert all(Turns(cases).devices(case, "xy") == ["x", "y"] for case in cases)
