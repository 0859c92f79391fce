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
from tests.effort import IS_QUICK, TAKES_TURNS, TURN
from tests.targets import all_compute_as_gpus

CASES = sample_cases()


@pytest.mark.each_operator
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_samples(case: SampleCase, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    if case.desc_class.declaration.pattern in ("matrix", "convolution", "recurrent", "composed"):
        # A processor's driver compiles a GPU's tiles for a second or more: test_products.py tries few of them.
        all_compute_as_gpus(monkeypatch, as_gpus=False)
    numbers = itertools.count()

    def chosen(benches: Sequence[Workbench]) -> Sequence[Workbench]:
        return [] if IS_QUICK and next(numbers) else benches  # the first of an operator's samples

    layouts = 1 if IS_QUICK else 2 if TAKES_TURNS else len(LAYOUTS)
    first_layout = zlib.crc32(case.name.encode()) + (TURN or 0)
    assert check_case(benches, case, layouts, first_layout, chosen=chosen) > 0, "there are no samples"


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
