"""Where places are sought, -0 and +0 are one number: of equal elements the first, or the last, is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from onnx import TensorProto, helper

import dmlvk.onnx
from dmlvk import array_api as xp

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}
TINY = {"float32": 1e-45, "float16": 6e-8}

CASES: list[tuple[str, dict[str, Any], int]] = [
    ("ArgMax", {"axis": 1}, 1),
    ("ArgMax", {"axis": 2, "select_last_index": 1, "keepdims": 0}, 1),
    ("ArgMin", {"axis": 3}, 1),
    ("ArgMin", {"axis": 0, "select_last_index": 1}, 1),
    ("TopK", {"axis": 3}, 2),
    ("TopK", {"axis": 2, "largest": 0}, 2),
    ("MaxPool", {"kernel_shape": [2, 3], "pads": [0, 1, 1, 0]}, 2),
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "storage_order": 1}, 2),
    ("Hardmax", {"axis": 3}, 1),
]


def _zeros(dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Mostly zeros of both signs; the smallest denormals beside them are no zeros."""
    elements = np.array([0.0, -0.0, 0.0, -0.0, -1.0, TINY[dtype], -TINY[dtype]], dtype)
    return np.random.default_rng(len(shape) + len(dtype)).choice(elements, shape)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("operator", "attributes", "outputs"), CASES)
def test_places_are_onnx_runtimes(operator: str, attributes: dict[str, Any], outputs: int, dtype: str) -> None:
    x = _zeros(dtype, (4, 3, 5, 7))
    model = _model(operator, attributes, outputs, TYPES[dtype], x.shape)
    session = dmlvk.onnx.InferenceSession(model)
    wide = _model(operator, attributes, outputs, TensorProto.FLOAT, x.shape)  # ONNX Runtime has few of them for FLOAT16
    expected = onnxruntime.InferenceSession(wide).run(None, {"x": x.astype(np.float32)})
    for result, other in zip(session.run(None, {"x": x}), expected, strict=True):
        assert result.tolist() == other.tolist()
        if operator == "TopK":
            assert result.tobytes() == other.astype(result.dtype).tobytes()  # also the signs of zeros
    assert all(placed.place == "device" for placed in session.partition)


def _model(operator: str, attributes: dict[str, Any], outputs: int, element: int, shape: tuple[int, ...]) -> bytes:
    k = [helper.make_tensor("k", TensorProto.INT64, [1], [4])] if operator == "TopK" else []
    node = helper.make_node(operator, ["x", *(each.name for each in k)], ["y", "z"][:outputs], **attributes)
    integers = operator.startswith("Arg")
    shown = [
        helper.make_tensor_value_info("y", TensorProto.INT64 if integers else element, None),
        helper.make_tensor_value_info("z", TensorProto.INT64, None),
    ]
    graph = helper.make_graph([node], "zeros", [helper.make_tensor_value_info("x", element, shape)], shown[:outputs], k)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("descending", [False, True])
def test_the_array_api_orders_them_as_they_came(descending: bool) -> None:
    x = _zeros("float32", (6, 50))
    array = xp.asarray(x)
    assert np.asarray(xp.argmax(array, axis=1)).tolist() == np.argmax(x, axis=1).tolist()
    assert np.asarray(xp.argmin(array, axis=0)).tolist() == np.argmin(x, axis=0).tolist()
    places = np.argsort(-x if descending else x, axis=1, kind="stable")
    assert np.asarray(xp.argsort(array, axis=1, descending=descending)).tolist() == places.tolist()
    ordered = np.take_along_axis(x, places, axis=1)
    assert np.asarray(xp.sort(array, axis=1, descending=descending)).tobytes() == ordered.tobytes()
    assert np.asarray(xp.unique_values(array)).tolist() == np.unique(x).tolist()
