"""Worked examples: those of DirectML's pages, and numbers by hand where its pages have none.

``examples.json`` has one in a line: an operator, its attributes by DirectML's names, what each input holds, and what
each output must hold, to the bit. A tensor has the sizes of its values; its data type is FLOAT32 if none is stated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench

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
