"""The worked examples of DirectML's pages, of operators that move elements or fill tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.operators.filling import SliceGrad
from dmlvk.operators.rearrangement import DepthSpaceOrder, Padding, PaddingMode
from dmlvk.tensors import TensorDesc

EXAMPLES = json.loads((Path(__file__).parent / "movement_examples.json").read_text(encoding="utf-8"))

_ENUMERATIONS = {"PaddingMode": PaddingMode, "Order": DepthSpaceOrder}


def _attribute(name: str, value: Any) -> Any:
    if name in _ENUMERATIONS:
        return _ENUMERATIONS[name][value]
    return dml.DataType[value] if name.endswith("DataType") else value


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{i}-{e['operator']}" for i, e in enumerate(EXAMPLES)])
def test_worked_examples(benches: list[Workbench], example: dict[str, Any]) -> None:
    members = {name: _attribute(name, value) for name, value in example["attributes"].items()}
    for name, sizes in example["sizes"].items():
        members[name] = TensorDesc(dml.DataType[example["data_types"][name]], sizes)
    desc = dml.operator_desc(example["operator"], **members)
    inputs = {name: np.array(values, members[name].data_type.numpy_dtype) for name, values in example["inputs"].items()}
    for bench in benches:
        got = bench.device.run(desc, inputs)
        assert {name: values.tolist() for name, values in got.items()} == example["outputs"]


def _floats(*sizes: int) -> TensorDesc:
    return TensorDesc(dml.FLOAT32, sizes)


def _padding(**changes: Any) -> Padding:
    members: dict[str, Any] = {
        "input_tensor": _floats(1, 1, 2, 3),
        "output_tensor": _floats(1, 1, 3, 5),
        "padding_mode": PaddingMode.EDGE,
        "padding_value": 0.0,
        "dimension_count": 4,
        "start_padding": (0, 0, 1, 1),
        "end_padding": (0, 0, 0, 1),
    }
    return Padding(**{**members, **changes})


def test_slice_grad_puts_elements_where_they_came_from(benches: list[Workbench]) -> None:
    """The page's example, which has letters."""
    desc = SliceGrad(
        input_gradient_tensor=_floats(2, 2),
        output_gradient_tensor=_floats(4, 4),
        dimension_count=2,
        input_window_offsets=(0, 0),
        input_window_sizes=(4, 4),
        input_window_strides=(2, 2),
    )
    for bench in benches:
        got = bench.device.run(desc, {"InputGradientTensor": np.array([[1, 3], [9, 11]], np.float32)})[
            "OutputGradientTensor"
        ]
        assert got.tolist() == [[1, 0, 3, 0], [0, 0, 0, 0], [9, 0, 11, 0], [0, 0, 0, 0]]


def test_modes_need_their_feature_levels(benches: list[Workbench]) -> None:
    index = benches[0].device.info.index
    message = r"PADDING: PaddingMode cannot be SYMMETRIC at feature level 2_1; it needs 3_0"
    level = dml.FeatureLevel.LEVEL_2_1
    with dml.Device(index, feature_level=level) as device, pytest.raises(dml.UnsupportedError, match=message):
        device.create_operator(_padding(padding_mode=PaddingMode.SYMMETRIC))


@pytest.mark.parametrize("mode", [PaddingMode.REFLECTION, PaddingMode.SYMMETRIC, PaddingMode.WRAP, PaddingMode.EDGE])
def test_long_paddings_take_few_steps(benches: list[Workbench], mode: PaddingMode) -> None:
    """A period is doubled, not repeated."""
    names = {PaddingMode.REFLECTION: "reflect", PaddingMode.SYMMETRIC: "symmetric", PaddingMode.WRAP: "wrap"}
    values = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    desc = _padding(
        padding_mode=mode,
        start_padding=(0, 0, 1, 50),
        end_padding=(0, 0, 0, 147),
        output_tensor=_floats(1, 1, 3, 200),
    )
    widths = [(0, 0), (0, 0), (1, 0), (50, 147)]
    numpy_mode: Any = names.get(mode, "edge")
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": values})["OutputTensor"]
        assert np.array_equal(got, np.pad(values, widths, numpy_mode))
    assert len(lower(desc, GPU).steps) < 20
