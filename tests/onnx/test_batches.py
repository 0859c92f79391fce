"""A batch that is too large for the device runs in parts, with the same bits, where each item is by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models

MOST_BYTES = 2**15
Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on no device has a buffer of more than 32 KiB."""
    create = dml.Device.create_buffer

    def limited(device: dml.Device, size_in_bytes: int) -> dml.Buffer:
        if size_in_bytes > MOST_BYTES:
            raise dml.DeviceLimitError(f"buffer: {size_in_bytes} bytes; {MOST_BYTES} at most")
        return create(device, size_in_bytes)

    return lambda: monkeypatch.setattr(dml.Device, "create_buffer", limited)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def weights(**shapes: tuple[int, ...]) -> Arrays:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def model(nodes: list[onnx.NodeProto], shape: list[int | None], constants: Arrays) -> onnx.ModelProto:
    return models.model(nodes, {"x": shape}, ["y"], constants)


PICTURES = [
    node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
    node("BatchNormalization", "a s b m v", "n"),
    node("Relu", "n", "r"),
    node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
    node("Concat", "p p", "c", axis=1),
    node("GlobalAveragePool", "c", "g"),
    node("Flatten", "g", "f"),
    node("Gemm", "f k", "l"),
    node("Softmax", "l", "y", axis=-1),
]
ROWS = [
    node("LayerNormalization", "x s b", "n", axis=-1),
    node("MatMul", "n q", "h"),
    node("Shape", "h", "sizes", end=2),
    node("Concat", "sizes heads", "split", axis=0),
    node("Reshape", "h split", "u"),
    node("Transpose", "u", "t", perm=[0, 2, 1, 3]),
    node("Transpose", "t", "k", perm=[0, 1, 3, 2]),
    node("MatMul", "t k", "e"),
    node("Softmax", "e", "p", axis=-1),
    node("MatMul", "p t", "o"),
    node("ReduceMean", "o", "y", axes=[2], keepdims=0),
]
FORMS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], Arrays]] = {
    "pictures": (
        PICTURES,
        (9, 3, 16, 16),
        {**weights(w=(8, 3, 3, 3), s=(8,), b=(8,), m=(8,), k=(16, 5)), "v": np.ones(8, np.float32)},
    ),
    "rows of texts": (
        ROWS,
        (8, 20, 24),
        {**weights(q=(24, 64), s=(24,), b=(24,)), "heads": np.array([4, 16])},
    ),
    "shapes that name the size": (
        [
            node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
            node("Reshape", "a flat", "f"),
            node("Reshape", "f pairs", "p"),
            node("Expand", "p wide", "e"),
            node("ReduceMax", "e", "y", axes=[2], keepdims=0),
        ],
        (9, 3, 16, 16),
        {
            **weights(w=(8, 3, 3, 3)),
            "flat": np.array([9, -1]),
            "pairs": np.array([9, 1, 1024, 2]),
            "wide": np.array([9, 3, 1, 2]),
        },
    ),
    "inputs and outputs": ([node("Mul", "x w", "y")], (5, 30, 150), weights(w=(150,))),
}


@pytest.mark.parametrize("is_open", [True, False], ids=["open batch", "fixed batch"])
@pytest.mark.parametrize("name", FORMS)
def test_parts_of_a_batch_have_the_bits_of_the_whole(
    any_device: dml.Device, small_buffers: Callable[[], None], name: str, is_open: bool
) -> None:
    nodes, shape, constants = FORMS[name]
    made = model(nodes, [None, *shape[1:]] if is_open else list(shape), constants)
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (expected,) = ort.InferenceSession(made, device=any_device).run(None, {"x": x})
    small_buffers()
    session = ort.InferenceSession(made, device=any_device)
    for _ in range(2):
        (got,) = session.run(None, {"x": x})
        assert got.shape == expected.shape
        assert got.tobytes() == expected.tobytes()
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert session.run_with_ort_values(None, {"x": value})[0].numpy().tobytes() == expected.tobytes()


LARGE = node("Conv", "x w", "large", pads=[1, 1, 1, 1])
TOGETHER = {
    "a mean over the batch": [node("ReduceMean", "large", "y", axes=[0])],
    "shares of the batch": [node("Softmax", "large", "y", axis=0)],
    "a shape that names the size, and is a number besides": [
        node("Reshape", "large shape", "fours"),
        node("Cast", "fours", "whole", to=TensorProto.INT64, name="whole y"),
        node("Mul", "whole shape", "scaled", name="scaled y"),
        node("Cast", "scaled", "y", to=TensorProto.FLOAT),
    ],
    "the items in another order": [node("Transpose", "large", "y", perm=[1, 0, 2, 3])],
    "other items beside each": [node("Slice", "large start end zero minus", "y")],
    "a number that follows from the size": [
        node("Shape", "large", "sizes", end=1),
        node("Cast", "sizes", "size", to=TensorProto.FLOAT),
        node("Div", "large size", "y"),
    ],
    "statistics of the batch": [node("BatchNormalization", "large s s s s", "y m v", training_mode=1)],
}


@pytest.mark.parametrize("name", TOGETHER)
def test_a_batch_whose_items_belong_together_is_refused_by_value_and_node(
    any_device: dml.Device, small_buffers: Callable[[], None], name: str
) -> None:
    constants = {
        **weights(w=(8, 3, 3, 3)),
        "s": np.ones(8, np.float32),
        "shape": np.array([8, -1, 1, 4]),
        "start": np.array([-1]),
        "end": np.array([-9]),
        "zero": np.array([0]),
        "minus": np.array([-1]),
    }
    small_buffers()
    session = ort.InferenceSession(model([LARGE, *TOGETHER[name]], [None, 3, 16, 16], constants), device=any_device)
    with pytest.raises(dml.DeviceLimitError, match=r"'(Conv large|\w+ y)'"):
        session.run(None, {"x": np.ones((8, 3, 16, 16), np.float32)})
