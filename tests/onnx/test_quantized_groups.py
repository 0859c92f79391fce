"""What stands between DequantizeLinear and QuantizeLinear gives the integers of ONNX Runtime's default level."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, NodeProto, helper

import dmlvk.onnx
from tests.onnx import models

Array = npt.NDArray[Any]

TYPES = ("uint8", "int8")
SHAPE = (2, 4, 6, 5)
TIED = (0.5, 0.25, 0.1, 0.05, 0.02, 0.2, 0.16, 0.3)
"""Scales with which many sums and products lie half-way between two integers."""

ONE: dict[str, dict[str, Any]] = {
    "Sigmoid": {},
    "LeakyRelu": {"alpha": 0.2},
    "Softmax": {"axis": -1},
    "GlobalAveragePool": {},
    "AveragePool": {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [0, 1, 1, 0]},
    "MaxPool": {"kernel_shape": [2, 2]},
    "ReduceMean": {"axes": [2, 3]},
}
TWO: dict[str, dict[str, Any]] = {"Add": {}, "Mul": {}, "Sub": {}, "Concat": {"axis": 1}}


class Drawing:
    """A model of random scales and zero points, and its inputs."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.draw = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.nodes: list[NodeProto] = []
        self.feeds: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}

    def integers(self, shape: tuple[int, ...]) -> Array:
        bounds = np.iinfo(self.dtype)
        return self.draw.integers(bounds.min, bounds.max + 1, shape).astype(self.dtype)

    def parameters(self, name: str) -> list[str]:
        is_tied = self.draw.random() < 0.5
        scale = self.draw.choice(TIED) if is_tied else self.draw.uniform(0.01, 0.3)
        self.constants[f"{name}_scale"] = np.array(scale, np.float32)
        self.constants[f"{name}_zero"] = self.integers(()) if self.draw.random() < 0.7 else np.zeros((), self.dtype)
        return [f"{name}_scale", f"{name}_zero"]

    def node(self, op_type: str, reads: list[str], result: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, reads, [result], **attributes))
        return result

    def operand(self, name: str, shape: tuple[int, ...], *, is_constant: bool = False) -> str:
        if is_constant:
            self.constants[name] = self.integers(shape)
        else:
            self.feeds[name] = self.integers(shape)
        return self.node("DequantizeLinear", [name, *self.parameters(name)], f"{name}_number")

    def number(self, name: str) -> str:
        """An input of FLOAT, made integers and numbers again."""
        self.feeds[name] = self.draw.normal(0, 10, SHAPE).astype(np.float32)
        return self.again(name, name)

    def again(self, name: str, number: str) -> str:
        """A number as integers of a name of their own, and as a number again."""
        both = self.parameters(f"{name}_again")
        integers = self.node("QuantizeLinear", [number, *both], f"{name}_integers")
        return self.node("DequantizeLinear", [integers, *both], f"{name}_again")

    def finish(self, number: str) -> None:
        self.node("QuantizeLinear", [number, *self.parameters("y")], "y")

    def model(self) -> ModelProto:
        return models.model(self.nodes, self.feeds, ["y"], self.constants)


def _check(drawing: Drawing) -> None:
    model = drawing.model()
    (expected,) = models.onnx_runtime(model).run(None, drawing.feeds)
    (result,) = dmlvk.onnx.InferenceSession(model).run(None, drawing.feeds)
    wrong = np.flatnonzero((result != expected).ravel())
    assert not wrong.size, f"{wrong.size} of {result.size} integers are not ONNX Runtime's: {drawing.constants}"


pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="ONNX Runtime's integers of other processors are others"
)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", ONE)
def test_one_operand(operator: str, dtype: str) -> None:
    for seed in range(2):
        drawing = Drawing(seed, dtype)
        drawing.finish(drawing.node(operator, [drawing.operand("a", SHAPE)], "r", **ONE[operator]))
        _check(drawing)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("operator", TWO)
def test_two_operands(operator: str, dtype: str) -> None:
    for seed in range(4):
        drawing = Drawing(seed, dtype)
        shapes = [SHAPE] if operator == "Concat" else [SHAPE, (4, 1, 1), (5,), (1,)]
        second = shapes[int(drawing.draw.integers(len(shapes)))]
        operands = [drawing.operand("a", SHAPE), drawing.operand("b", second, is_constant=bool(seed % 2))]
        drawing.finish(drawing.node(operator, operands[:: 1 if seed % 3 else -1], "r", **TWO[operator]))
        _check(drawing)


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_and_products_that_follow_one_another(dtype: str) -> None:
    """INT8 integers between them become UINT8 in ONNX Runtime on x86-64, where that leaves operands of one type."""
    for seed in range(6):
        drawing = Drawing(seed, dtype)
        operators = [str(each) for each in drawing.draw.choice(["Add", "Mul"], 4)]
        x = drawing.number("x") if seed % 2 else drawing.operand("a", SHAPE)
        first = drawing.again("m", drawing.node(operators[0], [x, drawing.number("w")], "r"))
        second = drawing.again("n", drawing.node(operators[1], [first, drawing.operand("b", SHAPE)], "s"))
        third = drawing.again("o", drawing.node(operators[2], [second, first if seed % 3 else second], "t"))
        drawing.finish(drawing.node(operators[3], [third, third], "u"))
        _check(drawing)
