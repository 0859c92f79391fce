"""ONNX Runtime's operators of quantized tensors, beside ONNX Runtime itself."""

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
from tests.onnx.beside_onnx_runtime import compare, numbers
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


@pytest.mark.parametrize("element", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearSigmoid", {}),
        ("QLinearSoftmax", {"axis": -1, "opset": 13}),
        ("QLinearSoftmax", {"axis": 1, "opset": 11}),
        ("QLinearGlobalAveragePool", {"channels_last": 0}),
        ("QLinearAveragePool", {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 1]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ],
)
def test_functions_of_one_tensor(
    device: dml.Device, element: type[np.generic], operator: str, attributes: dict[str, Any]
) -> None:
    scales = {"QLinearSigmoid": 1 / 256, "QLinearSoftmax": 0.0037}  # of numbers below 1, whose reciprocal is not whole
    scale = scales.get(operator, 0.0317)  # with few quotients near halves
    feed = quantized(element, 2, 3, 6, 7) | target(element, scale, 0 if element is np.uint8 else -10)
    node = helper.make_node(operator, list(feed), ["y"], domain=MICROSOFT, **attributes)
    most, share = steps_apart(*both(device, node, feed))
    assert most <= 1 and share < 0.02


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_pools_of_channels_that_come_last(device: dml.Device, rank: int) -> None:
    """ONNX Runtime has them for bytes, too."""
    feed = quantized(np.uint8, 2, *(5, 4, 6)[: rank - 2], 3) | target(np.uint8, 0.06, 9)
    node = helper.make_node("QLinearGlobalAveragePool", list(feed), ["y"], domain=MICROSOFT, channels_last=1)
    most, _ = steps_apart(*both(device, node, feed))
    assert most <= 1


@pytest.mark.parametrize("element", [np.uint8, np.int8])
def test_products_choices_and_joined_tensors(device: dml.Device, element: type[np.generic]) -> None:
    a = quantized(element, 2, 3, 5, scale=0.02, name="a")
    b = quantized(element, 3, 1, scale=0.07, zero=-5 if element is np.int8 else 130, seed=1, name="b")
    feed = a | b | target(element, 0.1, 7)
    most, share = steps_apart(*both(device, helper.make_node("QLinearMul", list(feed), ["y"], domain=MICROSOFT), feed))
    assert most <= 1 and share < 0.02
    condition: Arrays = {"c": np.random.default_rng(2).integers(0, 2, (3, 5)).astype(np.bool_)}
    node = helper.make_node("QLinearWhere", list(condition | feed), ["y"], domain=MICROSOFT)
    most, _ = steps_apart(*both(device, node, condition | feed))
    assert most <= 1
    b = quantized(element, 2, 1, 5, scale=0.07, zero=11, seed=1, name="b")
    feed = target(element, 0.1, 7) | a | b
    node = helper.make_node("QLinearConcat", list(feed), ["y"], domain=MICROSOFT, axis=1)
    # ONNX Runtime wants the parts' scales to be constants.
    constants = {name: feed[name] for name in feed if "_" in name}
    most, _ = steps_apart(*both(device, node, {"a": feed["a"], "b": feed["b"]}, constants))
    assert most <= 1


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


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_matrices_of_blocks_of_few_bits(device: dml.Device, bits: int, has_zeros: bool) -> None:
    """With a last block that is not full, and an odd number of zero points in each row."""
    random, terms, columns, block = np.random.default_rng(7), 70, 5, 32
    blocks = 3
    constants: Arrays = {
        "b": random.integers(0, 256, (columns, blocks, block * bits // 8), np.uint8),
        "s": random.random(columns * blocks, np.float32) + np.float32(0.01),
    }
    if has_zeros:
        constants["z"] = random.integers(0, 256, columns * -(-blocks * bits // 8), np.uint8)
    feed: Arrays = {"a": random.standard_normal((2, 3, terms)).astype(np.float32)}
    attributes: dict[str, Any] = {"K": terms, "N": columns, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", ["a", *constants], ["y"], domain=MICROSOFT, **attributes)
    got, expected = both(device, node, feed, constants)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-2)


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


@pytest.mark.parametrize("kind", ["picture", "numbers", "nothing"])
def test_numbers_become_the_integers_of_onnx_runtime(device: dml.Device, kind: str) -> None:
    """Every quotient of a picture from -1 to 1 by its scale, 2 / 255, lies next to a half."""
    x = (np.arange(256, dtype=np.float32).reshape(4, 64) - 127.5) / np.float32(127.5)
    x = {"picture": x, "numbers": numbers(4, 64), "nothing": np.zeros((4, 64), np.float32)}[kind]
    compare(device, "DynamicQuantizeLinear", {"x": x}, opset=11, outputs=["y", "scale", "zero"], tolerance=0)
    for dtype, zero in ((np.uint8, 127), (np.int8, -1)):
        feed: Arrays = {"x": x, "scale": np.array(2 / 255, np.float32), "zero": np.array(zero, dtype)}
        compare(device, "QuantizeLinear", feed, opset=13, constants=["scale", "zero"])
    weights = np.random.default_rng(1).integers(-100, 100, (64, 3), np.int8)
    feed = {"x": x, "w": weights, "scale": np.array(0.02, np.float32)}
    compare(device, "DynamicQuantizeMatMul", feed, domain="com.microsoft")
