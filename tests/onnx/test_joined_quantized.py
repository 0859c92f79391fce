"""Models of QuantizeLinear and DequantizeLinear have ONNX Runtime's integers, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models

Array = npt.NDArray[Any]


class Quantized:
    """A model whose operators stand between DequantizeLinear and QuantizeLinear.

    Args:
        kind: of the activations' integers.
    """

    def __init__(self, kind: type[np.generic] = np.uint8) -> None:
        self.kind = kind
        self.rng = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.feed: dict[str, Array] = {}

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def given(self, *shape: int, scale: float = 0.02) -> str:
        """Integers that the model is run with, dequantized."""
        name, limits = f"x{len(self.feed)}", np.iinfo(self.kind)  # type: ignore[type-var]  # of integers only
        self.feed[name] = self.rng.integers(limits.min, limits.max, shape, endpoint=True).astype(self.kind)
        return self.op("DequantizeLinear", name, self.constant(np.float32(scale)), self.constant(self.kind(9)))

    def weights(self, *shape: int, axis: int | None = None) -> str:
        """Integers of 7 bits: processors without VNNI add pairs of products in 16 bits."""
        values = self.constant(self.rng.integers(-63, 63, shape).astype(np.int8))
        scales = self.scales(1 if axis is None else shape[axis], is_one=axis is None)
        zeros = self.constant(np.zeros_like(self.constants[scales], np.int8))
        return self.op("DequantizeLinear", values, scales, zeros, **({} if axis is None else {"axis": axis}))

    def scales(self, count: int, *, is_one: bool) -> str:
        values = self.rng.uniform(0.003, 0.01, count).astype(np.float32)
        return self.constant(values[0] if is_one else values)

    def bias(self, count: int, weights: str) -> str:
        node = next(node for node in self.nodes if node.output[0] == weights)
        scale = self.constant(self.constants[node.input[1]] * np.float32(0.02))
        zero = self.constant(np.zeros_like(self.constants[scale], np.int32))
        values = self.constant(self.rng.integers(-9000, 9000, count).astype(np.int32))
        return self.op("DequantizeLinear", values, scale, zero, axis=0)

    def rounded(self, name: str, scale: float, zero: int = 9) -> str:
        return self.op("QuantizeLinear", name, self.constant(np.float32(scale)), self.constant(self.kind(zero)))

    def both(self, device: dml.Device, *outputs: str) -> tuple[list[Array], list[Array], set[str]]:
        """The results of dmlvk and of ONNX Runtime, and the kinds of nodes that were joined."""
        model = models.model(self.nodes, self.feed, outputs, self.constants)
        theirs = models.onnx_runtime(model)
        session = ort.InferenceSession(model, device=device)
        found, expected = session.run(None, self.feed), theirs.run(None, self.feed)
        joined = {item.op_type for item in session.partition if item.reason.startswith("joined")}
        return found, expected, joined


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("axis", [None, 0])
def test_convolutions_of_integers_have_onnx_runtimes_bits(
    any_device: dml.Device, kind: type[np.generic], axis: int | None
) -> None:
    form = Quantized(kind)
    weights = form.weights(16, 24, 3, 3, axis=axis)
    made = form.op("Conv", form.given(1, 24, 20, 20), weights, form.bias(16, weights), pads=[1, 1, 1, 1])
    lowest = int(np.iinfo(kind).min)  # type: ignore[type-var]  # of integers only
    result = form.rounded(form.op("Relu", made), 0.02, lowest)
    found, expected, joined = form.both(any_device, result)
    if kind is np.int8:  # ONNX Runtime sums those as FLOAT32 on x86
        apart = np.abs(found[0].astype(int) - expected[0])
        assert apart.max() <= 1 and (apart != 0).mean() < 1e-3
    else:
        np.testing.assert_array_equal(found[0], expected[0])
    assert len(np.unique(found[0])) > 100 and {"Conv", "Relu", "QuantizeLinear"} == joined


@pytest.mark.parametrize("axis", [None, 1, -1])
def test_products_of_integers_have_onnx_runtimes_bits(any_device: dml.Device, axis: int | None) -> None:
    form = Quantized()
    x = form.given(2, 30, 200)  # dequantized once for both products
    weights = form.weights(200, 64, axis=axis)
    result = form.rounded(form.op("MatMul", x, weights), 0.03)
    number = form.op("MatMul", x, form.weights(200, 64))
    found, expected, joined = form.both(any_device, result, number)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=2.0**-22)
    assert joined == {"MatMul", "QuantizeLinear"}


@pytest.mark.parametrize("turned", [0, 1])
def test_gemm_of_integers_has_onnx_runtimes_bits(any_device: dml.Device, turned: int) -> None:
    form = Quantized()
    weights = form.weights(*((40, 200) if turned else (200, 40)), axis=1 - turned)
    result = form.rounded(form.op("Gemm", form.given(30, 200), weights, form.bias(40, weights), transB=turned), 0.03)
    found, expected, joined = form.both(any_device, result)
    np.testing.assert_array_equal(found[0], expected[0])
    assert joined == {"Gemm", "QuantizeLinear"}


@pytest.mark.parametrize("kind", ["Add", "Mul"])
def test_sums_and_products_of_elements_have_onnx_runtimes_bits(any_device: dml.Device, kind: str) -> None:
    form = Quantized()
    result = form.rounded(form.op(kind, form.given(64, 300), form.given(300, scale=0.013)), 0.021)
    found, expected, joined = form.both(any_device, result)
    np.testing.assert_array_equal(found[0], expected[0])
    assert joined == {kind, "QuantizeLinear"}


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_softmax_of_integers_counts_steps_as_onnx_runtime_does(any_device: dml.Device, kind: type[np.generic]) -> None:
    """What a sum's order brings to a half may be one integer beside."""
    form = Quantized(kind)
    lowest = int(np.iinfo(kind).min)  # type: ignore[type-var]  # of integers only
    rows = form.given(8, 60, 40, scale=0.06)
    results = [form.rounded(form.op("Softmax", rows, axis=axis), 0.0037, lowest) for axis in (-1, 1)]
    found, expected, joined = form.both(any_device, *results)
    for one, other in zip(found, expected, strict=True):
        apart = np.abs(one.astype(int) - other)
        assert apart.max() <= 1 and (apart != 0).sum() <= 1 and len(np.unique(one)) > 50
    assert joined == {"Softmax", "QuantizeLinear"}


def test_what_is_no_product_of_such_integers_stays_as_it_is(any_device: dml.Device) -> None:
    form = Quantized()
    of_floats = form.op("MatMul", form.given(3, 4), form.constant(np.eye(4, dtype=np.float32)))
    other_scale = form.weights(4, 4)
    bias = form.op("DequantizeLinear", form.constant(np.arange(4, dtype=np.int32)), form.constant(np.float32(0.5)))
    tiny = form.op("DequantizeLinear", form.constant(np.arange(4, dtype=np.int32)), form.constant(np.float32(9e-9)))
    results = [
        form.rounded(of_floats, 0.02),
        form.rounded(form.op("Gemm", form.given(3, 4), other_scale, bias), 0.02),
        form.rounded(form.op("Relu", form.op("Add", form.given(3, 4), form.given(3, 4))), 0.02),
        form.rounded(form.op("Gemm", form.given(3, 4, scale=1e-6), other_scale, tiny), 1e-8),
    ]
    found, expected, joined = form.both(any_device, *results)
    for ours, theirs in zip(
        found[::2], expected[::2], strict=True
    ):  # ONNX Runtime takes any scale of a bias for theirs
        np.testing.assert_allclose(ours.astype(int), theirs.astype(int), atol=1)
    assert joined == set()
