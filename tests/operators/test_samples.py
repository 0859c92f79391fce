"""Every operator gives what its reference says: samples, worked examples; broken rules are refused in their words."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.conformance.samples import SAMPLERS, SampleCase, sample_cases
from dmlvk.conformance.sampling import LAYOUTS, check_case
from dmlvk.operators import OPERATORS, FeatureLevel, check_operator
from tests.effort import IS_QUICK, TAKES_TURNS, Turns, in_turn
from tests.targets import all_compute_as_gpus

CASES = sample_cases()

TURNS = Turns(CASES)


@pytest.mark.every_driver
@pytest.mark.each_operator
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_samples(case: SampleCase, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    if case.desc_class.declaration.pattern in ("matrix", "convolution", "recurrent", "composed"):
        # A processor's driver compiles a GPU's tiles for a second or more: test_products.py tries few of them.
        all_compute_as_gpus(monkeypatch, as_gpus=False)
    devices = TURNS.devices(case, benches)
    numbers = itertools.count()

    def chosen(benches: Sequence[Workbench], number: int) -> Sequence[Workbench]:
        if IS_QUICK:  # the first of an operator's samples
            return [] if next(numbers) else benches
        return in_turn(benches, number)

    is_shown_by_others = len(devices) < len(benches)
    layouts, first_layout = len(LAYOUTS), None
    if IS_QUICK or (TAKES_TURNS and is_shown_by_others):
        layouts = 1
    elif TAKES_TURNS and len(devices) > 1 and len(alike := TURNS.on_all(case)) > 1:
        layouts, first_layout = 2, _first_layout(alike.index(case), case.desc_class.operator_name)
    count = check_case(devices, case, layouts, first_layout=first_layout, chosen=chosen)
    assert count > 0, "there are no samples"


def _first_layout(number: int, operator: str) -> int:
    """Of an operator's case of a number; every other pair of cases and of operators has the devices the other way."""
    return 2 * number + (number // 2 + zlib.crc32(operator.encode())) % 2


def test_two_cases_have_all_layouts_of_a_sample_and_all_cases_have_each_on_each_device() -> None:
    places: set[tuple[int, int]] = set()
    for operator in SAMPLERS:
        for number in (0, 2, 4):
            of_pair = [_first_layout(number + second, operator) + place for second in (0, 1) for place in (0, 1)]
            assert {layout % len(LAYOUTS) for layout in of_pair} == set(range(len(LAYOUTS))), operator
            places |= {(layout % len(LAYOUTS), n % 2) for n, layout in enumerate(of_pair)}
    assert len(places) == 2 * len(LAYOUTS)


def test_every_irregular_operator_has_samples_and_a_reference() -> None:
    irregular = {name for name, kind in OPERATORS.items() if not kind.declaration.is_regular}
    assert set(SAMPLERS) == irregular <= set(REFERENCES)


EXAMPLES = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))


def _members(example: dict[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {
        name: dml.Size2D(**value) if isinstance(value, dict) else value for name, value in example["attributes"].items()
    }
    for name, values in (example["inputs"] | example["outputs"]).items():
        tensor = dml.TensorDesc(dml.DataType[example.get("data_types", {}).get(name, "FLOAT32")], np.shape(values))
        of_array = name.partition("[")[0]
        members[of_array] = tensor if of_array == name else [*members.get(of_array, []), tensor]
    return members


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{i}-{e['operator']}" for i, e in enumerate(EXAMPLES)])
def test_worked_examples(benches: list[Workbench], example: dict[str, Any]) -> None:
    desc = dml.operator_desc(example["operator"], **_members(example))
    types = {field.name: tensor.data_type.numpy_dtype for field, tensor in desc.inputs if tensor is not None}
    inputs = {name: np.array(values, types[name]) for name, values in example["inputs"].items()}
    for bench in benches:
        got = bench.device.run(desc, inputs)
        assert got.keys() == example["outputs"].keys()
        for name, values in got.items():
            np.testing.assert_array_equal(
                values, np.array(example["outputs"][name], values.dtype), example.get("why", "")
            )


REFUSALS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("refusals.json").read_text(encoding="utf-8"))


def _value(value: Any) -> Any:
    """A tensor is ``{"tensor": ["FLOAT32", 2, 3]}``, with strides ``{"tensor": [["FLOAT32", 2, 3], [3, 1]]}``."""
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "activation" in value:
        attributes = {name: each for name, each in value.items() if name != "activation"}
        return dml.fused_activation(value["activation"], **attributes)
    if "width" in value:
        return dml.Size2D(**value)
    whole, strides = value["tensor"], None
    if isinstance(whole[0], list):
        whole, strides = whole
    flags = dml.TensorFlags[value.get("flags", "NONE")]
    return dml.TensorDesc(dml.DataType[whole[0]], whole[1:], strides, flags=flags)


@pytest.mark.parametrize("case", REFUSALS, ids=[f"{i}-{each['operator']}" for i, each in enumerate(REFUSALS)])
def test_a_description_that_breaks_a_rule_is_refused_in_these_words(case: dict[str, Any]) -> None:
    members = {name: _value(value) for name, value in case["members"].items()}
    kind = OPERATORS[case["operator"]]
    desc = kind(
        **{field.attribute: _named(field, members[field.name]) for field in kind.fields if field.name in members}
    )
    with pytest.raises(dml.DmlError) as caught:
        check_operator(desc, FeatureLevel.from_name(case.get("level", "6_4")))
    assert str(caught.value) == case["message"]
    assert type(caught.value).__name__ == case.get("error", "InvalidArgumentError")


def _named(field: Any, value: Any) -> Any:
    if field.enumeration is not None:
        return field.enumeration[value]
    return dml.DataType[value] if field.type == "data_type" else value
