"""Quantized tensors: ONNX Runtime's operators, and what stands between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.test_operators import Arrays, of_node

MICROSOFT = "com.microsoft"


def both(
    device: dml.Device, node: onnx.NodeProto, feed: Arrays, constants: Arrays | None = None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The first output of a node: the device's alone, and ONNX Runtime's."""
    model = of_node(node, feed, 21)
    model.ir_version = 10
    for name, array in (constants or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    bytes_of_model = model.SerializeToString()
    got = ort.InferenceSession(model, device=device, strict=True).run(None, feed)[0]
    expected = onnxruntime.InferenceSession(bytes_of_model, providers=["CPUExecutionProvider"]).run(None, feed)[0]
    assert got.dtype == expected.dtype and got.shape == expected.shape
    return got, expected


def steps_apart(got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> tuple[int, float]:
    """The largest difference of integers, and how many of them differ at all."""
    apart = np.abs(got.astype(np.int64) - expected.astype(np.int64))
    return int(apart.max()), float((apart != 0).mean())


def quantized(
    element: type[np.generic], *shape: int, scale: float = 0.05, zero: int = 3, seed: int = 0, name: str = "x"
) -> Arrays:
    """Integers with their scale and their zero point."""
    limits = np.iinfo(element)  # type: ignore[type-var]  # of integers
    values = np.random.default_rng(seed).integers(limits.min, limits.max, shape, endpoint=True)
    return {
        name: values.astype(element),
        f"{name}_scale": np.array(scale, np.float32),
        f"{name}_zero": np.array(zero, element),
    }


@functools.cache
def _runtime_saturates() -> bool:
    """Whether ONNX Runtime adds pairs of UINT8 x INT8 in 16 bits here: on x86 processors without VNNI."""
    feed: Arrays = {"a": np.full((4, 64), 255, np.uint8), "b": np.full((64, 16), 127, np.int8)}
    model = of_node(helper.make_node("MatMulInteger", ["a", "b"], ["y"]), feed, 21)
    model.ir_version = 10
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return bool((session.run(None, feed)[0] != 64 * 255 * 127).any())


def right_matrix(element: type[np.generic], *shape: int, zero: int = 3) -> Arrays:
    """The second matrix of a product: with as large numbers as ONNX Runtime can add on this processor."""
    made = quantized(element, *shape, seed=1, zero=zero, name="b")
    if element is np.int8 and _runtime_saturates():
        made["b"] = made["b"] >> 1
    return made


def target(element: type[np.generic], scale: float, zero: int) -> Arrays:
    return {"y_scale": np.array(scale, np.float32), "y_zero": np.array(zero, element)}


@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_products_of_integers_as_numbers(
    device: dml.Device, types: tuple[type[np.generic], type[np.generic]], has_zeros: bool
) -> None:
    a, b = quantized(types[0], 2, 4, 9, name="a"), right_matrix(types[1], 9, 6)
    scales = np.linspace(0.01, 0.06, 6, dtype=np.float32)
    feed: Arrays = {"a": a["a"], "b": b["b"], "sa": a["a_scale"], "sb": scales}
    names = ["a", "b", "sa", "sb"]
    if has_zeros:
        feed |= {"za": a["a_zero"], "zb": np.arange(6).astype(types[1]), "bias": np.arange(6, dtype=np.float32)}
        names += ["za", "zb", "bias"]
    got, expected = both(device, helper.make_node("MatMulIntegerToFloat", names, ["y"], domain=MICROSOFT), feed)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("element", [np.uint8, np.int8])
def test_products_that_quantize_their_first_matrix(device: dml.Device, element: type[np.generic]) -> None:
    x = np.random.default_rng(5).standard_normal((3, 8)).astype(np.float32)
    b = right_matrix(element, 8, 4, zero=2)
    feed: Arrays = {"x": x, "b": b["b"], "s": b["b_scale"], "z": b["b_zero"], "c": np.arange(4, dtype=np.float32)}
    node = helper.make_node("DynamicQuantizeMatMul", list(feed), ["y"], domain=MICROSOFT)
    got, expected = both(device, node, feed)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_quantized_products_with_a_bias(device: dml.Device, transposed: tuple[int, int], has_bias: bool) -> None:
    a = quantized(np.uint8, *((9, 4) if transposed[0] else (4, 9)), zero=120, name="a")
    b = right_matrix(np.int8, *((5, 9) if transposed[1] else (9, 5)))
    b["b_scale"] = np.linspace(0.01, 0.05, 5, dtype=np.float32)
    b["b_zero"] = np.zeros(5, np.int8)
    bias: Arrays = {"c": np.arange(-500, 2000, 500, dtype=np.int32)} if has_bias else {}
    end = target(np.uint8, 1.37, 118)
    names = [*a, *b, "c" if has_bias else "", *end]
    attributes: dict[str, Any] = {"transA": transposed[0], "transB": transposed[1], "alpha": 1.0}
    node = helper.make_node("QGemm", names, ["y"], domain=MICROSOFT, **attributes)
    most, _ = steps_apart(*both(device, node, a | b | bias | end))
    assert most <= 1


Array = npt.NDArray[Any]


class Quantized:
    """A model whose operators stand between DequantizeLinear and QuantizeLinear."""

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
