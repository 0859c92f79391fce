"""Tensors without elements (a batch of no pictures): every node gives what ONNX Runtime gives, and ONNX's rules say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models

node = helper.make_node
PICTURES = (0, 3, 6, 8)
CONSTANTS: dict[str, Any] = {
    "w": np.ones((3, 4, 2, 2), np.float32),
    "grid": np.zeros((0, 4, 4, 2), np.float32),
    "axes": np.array([0]),
    "m": np.ones((8, 5), np.float32),
    "one": np.ones(8, np.float32),
}


def _ran(
    nodes: list[onnx.NodeProto],
    x: np.ndarray[Any, Any],
    device: dml.Device,
    constants: Mapping[str, np.ndarray[Any, Any]] = CONSTANTS,
) -> list[Any]:
    element, sizes = helper.np_dtype_to_tensor_dtype(x.dtype), [f"d{axis}" for axis in range(x.ndim)]
    outputs = [name for name in nodes[-1].output if name]
    made = models.model(nodes, {"x": (element, sizes)}, outputs, constants, opset=20)
    results: list[Any] = ort.InferenceSession(made, device=device).run(None, {"x": x})
    return results


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (node("Flatten", ["x"], ["y"]), (0, 144)),
        (node("GlobalAveragePool", ["x"], ["y"]), (0, 3, 1, 1)),
        (node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]), (0, 4, 12, 16)),
        (node("GridSample", ["x", "grid"], ["y"]), (0, 3, 4, 4)),
        (node("FusedMatMul", ["x", "m"], ["y"], domain="com.microsoft"), (0, 3, 6, 5)),
        (node("SkipLayerNormalization", ["x", "x", "one"], ["y"], domain="com.microsoft"), (0, 3, 6, 8)),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)
def test_results_without_elements_have_their_shapes(
    made: onnx.NodeProto, shape: tuple[int, ...], device: dml.Device
) -> None:
    (y,) = _ran([made], np.zeros(PICTURES, np.float32), device)
    assert (y.shape, y.dtype) == (shape, np.dtype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_reductions_of_nothing_are_onnx_runtimes(dtype: Any, device: dml.Device) -> None:
    is_float = dtype is np.float32
    low: float = -np.inf if is_float else np.iinfo(dtype).min
    high: float = np.inf if is_float else np.iinfo(dtype).max
    wanted: dict[str, float] = dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0)
    wanted |= {"ReduceProd": 1, "ReduceMax": low, "ReduceMin": high, "ReduceLogSum": low, "ReduceLogSumExp": low}
    for op_type, value in wanted.items():
        (y,) = _ran([node(op_type, ["x", "axes"], ["y"], keepdims=0)], np.zeros((0, 3), dtype), device)
        np.testing.assert_array_equal(y, np.full(3, value, dtype), err_msg=op_type)


@pytest.mark.parametrize(
    ("made", "shape"),
    [
        (node("Unique", ["x"], ["y"], axis=0), (2, 0)),
        (node("Unique", ["x"], ["y"], axis=1), (2, 3, 0)),
        (node("ConvTranspose", ["x", "v"], ["y"]), (1, 1, 8, 0, 6)),
        (node("SkipLayerNormalization", ["w", "x", "e", "e"], ["y"], domain="com.microsoft"), (0, 3, 8)),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else str(value),
)
def test_what_onnx_runtime_dies_of_is_refused(
    made: onnx.NodeProto, shape: tuple[int, ...], any_device: dml.Device
) -> None:
    constants = {"v": np.ones((1, 2, 1, 2, 2)), "w": np.ones((2, 3, 8)), "e": np.ones(8)}
    constants = {name: array.astype(np.float32) for name, array in constants.items() if name in made.input}
    with pytest.raises(dml.ModelFileError, match="ONNX Runtime: takes no such inputs without elements"):
        _ran([made], np.zeros(shape, np.float32), any_device, constants)
    of_others = _ran([node("Unique", ["x"], ["y"], axis=0)], np.zeros((0, 2), np.float32), any_device, {})
    assert of_others[0].shape == (0, 2)


def test_a_quantization_of_nothing_has_the_scale_1(device: dml.Device) -> None:
    y, scale, zero = _ran([node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], np.zeros(PICTURES, "f4"), device)
    assert (y.shape, y.dtype, scale, zero) == (PICTURES, np.dtype(np.uint8), 1.0, 0)
    assert helper.np_dtype_to_tensor_dtype(zero.dtype) == TensorProto.UINT8


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_recurrent_network_without_steps_gives_its_first_states(op_type: str, gates: int, device: dml.Device) -> None:
    states = {"h": np.full((1, 2, 4), 0.5, np.float32), "c": np.full((1, 2, 4), 1.5, np.float32)}
    names = ["h", "c"] if op_type == "LSTM" else ["h"]
    weights = {"w": np.ones((1, 4 * gates, 3), np.float32), "r": np.ones((1, 4 * gates, 4), np.float32)}
    outputs = ["y", *(f"{name} after" for name in names)]
    network = node(op_type, ["x", "w", "r", "", "", *names], outputs, hidden_size=4)
    constants = {**weights, **{name: states[name] for name in names}}
    y, *after = _ran([network], np.zeros((0, 2, 3), np.float32), device, constants)
    assert y.shape == (0, 1, 2, 4)
    for name, state in zip(names, after, strict=True):
        np.testing.assert_array_equal(state, states[name])
