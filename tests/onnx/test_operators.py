"""Operators of ONNX Runtime's own domain, and of ONNX where the project's suite says little, beside NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models

Arrays = dict[str, npt.NDArray[Any]]


def run(device: dml.Device, node: onnx.NodeProto, feed: Arrays, *, opset: int = 17) -> list[Any]:
    """The outputs of one node, computed by the device alone."""
    model = of_node(node, feed, opset)
    return ort.InferenceSession(model, device=device, strict=True).run(None, feed)


def of_node(node: onnx.NodeProto, feed: Arrays, opset: int = 17) -> onnx.ModelProto:
    return models.model([node], feed, [name for name in node.output if name], opset=opset)


def numbers(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def erf(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.vectorize(math.erf)(x.astype(np.float64)))


def test_einsum_of_float16_rounds_once(device: dml.Device) -> None:
    feed: Arrays = {"a": numbers(3, 9).astype(np.float16), "b": numbers(9, 7, seed=1).astype(np.float16)}
    (y,) = run(device, helper.make_node("Einsum", ["a", "b"], ["y"], equation="ij,jk->"), feed)
    assert y == np.einsum("ij,jk->", *(array.astype(np.float64) for array in feed.values())).astype(np.float16)


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_have_scales_and_zero_points_of_their_own(device: dml.Device, axis: int) -> None:
    shape = (3, 4) if axis == 0 else (6, 2)
    random = np.random.default_rng(axis)
    scale = np.exp2(random.integers(-3, 4, shape)).astype(np.float32)
    zero = random.integers(-9, 9, shape, np.int8)
    each_scale, each_zero = np.repeat(scale, 2, axis), np.repeat(zero, 2, axis).astype(np.float32)
    x = (random.integers(-40, 40, (6, 4)) * each_scale).astype(np.float32)
    options: dict[str, Any] = {"axis": axis, "block_size": 2}
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **options)
    (quantized,) = run(device, node, {"x": x, "s": scale, "z": zero}, opset=21)
    np.testing.assert_array_equal(quantized, (x / each_scale + each_zero).astype(np.int8), strict=True)
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **options)
    (restored,) = run(device, node, {"x": quantized, "s": scale, "z": zero}, opset=21)
    np.testing.assert_array_equal(restored, x, strict=True)


def _in_halves(values: npt.NDArray[Any], element: int) -> npt.NDArray[Any]:
    return values.astype(onnx.helper.tensor_dtype_to_np_dtype(element))


@pytest.mark.parametrize("element", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
@pytest.mark.parametrize(("axis", "block"), [(0, 2), (1, 2), (1, 0), (0, 0)])
def test_halves_of_bytes_are_onnx_runtime_s(device: dml.Device, element: int, axis: int, block: int) -> None:
    """Quantized and back, in blocks and along an axis, by zero points that are constants; all on the device."""
    random = np.random.default_rng(axis)
    shape = tuple(size // block if i == axis else size for i, size in enumerate((6, 4))) if block else ((6, 4)[axis],)
    scale = np.exp2(random.integers(-3, 4, shape)).astype(np.float32)
    least, greatest = (-8, 7) if element == onnx.TensorProto.INT4 else (0, 15)
    zero = random.integers(least, greatest, shape, endpoint=True)
    x = (random.integers(-40, 40, (6, 4)) / 2).astype(np.float32)
    options: dict[str, Any] = {"axis": axis} | ({"block_size": block} if block else {})
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **options),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **options),
    ]
    model = models.model(nodes, {"x": x}, ["y", "q", "z"], {"s": scale, "z": _in_halves(zero, element)}, opset=21)
    y, quantized, same = ort.InferenceSession(model, device=device, strict=True).run(None, {"x": x})
    each_scale, each_zero = (
        np.repeat(parameter, block, axis) if block else np.expand_dims(parameter, 1 - axis)
        for parameter in (scale, zero)
    )
    wanted = np.clip(np.rint(x / each_scale) + each_zero, least, greatest)
    np.testing.assert_array_equal(y, (wanted - each_zero) * each_scale)
    assert quantized.dtype == same.dtype == onnx.helper.tensor_dtype_to_np_dtype(element)
    np.testing.assert_array_equal(quantized.astype(np.float32), wanted)
    np.testing.assert_array_equal(same.astype(np.int64), zero)
    (expected,) = models.onnx_runtime(model).run(["y"], {"x": x})
    np.testing.assert_array_equal(y, expected)


def test_halves_of_bytes_as_inputs_are_moved_by_the_host(device: dml.Device) -> None:
    """What moves them runs on the host, what makes numbers of them on the device; odd counts."""
    element = onnx.TensorProto.INT4
    nodes = models.parsed(
        "turned = Transpose (x)  y = DequantizeLinear (turned, s)  flat = Flatten <axis = 0> (x)"
        " z = DequantizeLinear (flat, s)"
    )
    model = models.model(nodes, {"x": (element, (3, 5))}, ["y", "z"], {"s": np.array(0.5, np.float32)}, opset=21)
    values = np.arange(15).reshape(3, 5) - 8
    y, z = ort.InferenceSession(model, device=device).run(None, {"x": _in_halves(values, element)})
    np.testing.assert_array_equal(y, values.T / 2)
    np.testing.assert_array_equal(z, values.reshape(1, 15) / 2)


def test_a_large_constant_matrix_is_multiplied_in_parts_with_the_same_bits(
    any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed: Arrays = {"x": numbers(2, 32)}
    bits = []
    for transposed in (0, 1):
        weights = numbers(32, 40, seed=1)
        model = of_node(helper.make_node("Gemm", ["x", "w", "c"], ["y"], transB=transposed), feed)
        for name, array in {"w": weights.T.copy() if transposed else weights, "c": numbers(40, seed=2)}.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        with monkeypatch.context() as patched:
            bits.append(ort.InferenceSession(model, device=any_device).run(None, feed)[0].tobytes())
            patched.setattr("dmlvk.onnx.nodes.operators.matrix.largest_operand", lambda node: 1500)
            session = ort.InferenceSession(model, device=any_device, strict=True)
            bits.append(session.run(None, feed)[0].tobytes())
            assert len(session._program._parts) == 4
    assert len(set(bits)) == 1


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_rows_of_a_large_constant_are_gathered_in_parts(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: type[Any]
) -> None:
    table = (numbers(101, 4, 16) * 9).astype(kind)
    chosen = np.random.default_rng(0).integers(-101, 101, (2, 30))
    model = of_node(helper.make_node("Gather", ["w", "i"], ["y"], axis=0), {"i": chosen})
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "w"))
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    monkeypatch.setattr("dmlvk.onnx.nodes.operators.movement.largest_operand", lambda node: 3000)
    (y,) = ort.InferenceSession(model, device=device, strict=True).run(None, {"i": chosen})
    np.testing.assert_array_equal(y, table[chosen])


@pytest.mark.parametrize(("sizes", "axes"), [([4, 9, 5], None), ([1, 6, 8], None), ([10, 3], [-1, 0]), ([2], [1])])
@pytest.mark.parametrize("element", [np.float32, np.uint8, np.int64])
def test_centers_are_cropped_and_padded(
    device: dml.Device, sizes: list[int], axes: list[int] | None, element: Any
) -> None:
    """Axis by axis: the middle of the longer one is the shorter one; what is odd is behind."""
    x = numbers(3, 6, 7).view(np.uint32).astype(element)
    expected = x
    for axis, size in zip(range(3) if axes is None else axes, sizes, strict=True):
        rows = list(np.moveaxis(expected, axis, 0))
        at_start = False
        while len(rows) > size:
            rows.pop(0 if at_start else -1)
            at_start = not at_start
        while len(rows) < size:
            rows.insert(0 if at_start else len(rows), np.zeros_like(rows[0]))
            at_start = not at_start
        expected = np.moveaxis(np.stack(rows), 0, axis)
    node = helper.make_node("CenterCropPad", ["x", "sizes"], ["y"], axes=axes)
    (y,) = run(device, node, {"x": x, "sizes": np.array(sizes, np.int64)}, opset=18)
    np.testing.assert_array_equal(y, expected)


_ALIGNED = np.array(
    [
        [0, 0, 10, 8],
        [1.5, 2.25, 7.75, 4.5],
        [-3, -2, 4, 3],
        [8, 6, 30, 30],
        [5, 5, 5, 5],
        [6.1, 6.2, 3.3, 2.4],
        [0.3, 0.7, 0.9, 1.1],
        [40, 40, 50, 50],
    ],
    np.float32,
)
"""Inside, across edges, empty, inverted, smaller than an element, and far outside."""


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize(
    ("opset", "transformation", "scale", "ratio", "pooled"),
    [
        (10, "output_half_pixel", 0.25, 2, (2, 3)),
        (16, "output_half_pixel", 0.3, 0, (1, 1)),
        (16, "half_pixel", 0.7, 3, (2, 3)),
        (22, "half_pixel", 1.0, 0, (2, 3)),
    ],
)
def test_regions_are_aligned_as_by_definition(
    device: dml.Device, mode: str, opset: int, transformation: str, scale: float, ratio: int, pooled: tuple[int, int]
) -> None:
    """By ONNX's own reference."""
    height, width = pooled
    attributes: dict[str, Any] = {"output_height": height, "output_width": width, "sampling_ratio": ratio}
    attributes |= {"spatial_scale": scale, "mode": mode}
    named: dict[str, Any] = {} if opset < 16 else {"coordinate_transformation_mode": transformation}
    regions = (_ALIGNED / np.float32(scale)).astype(np.float32)
    feed: Arrays = {"x": numbers(2, 3, 9, 11), "r": regions, "b": np.arange(len(_ALIGNED), dtype=np.int64) % 2}
    (y,) = run(device, helper.make_node("RoiAlign", ["x", "r", "b"], ["y"], **attributes, **named), feed, opset=opset)
    # The reference takes every version for the newest one: where the attribute is not there, it must be told.
    node = helper.make_node(
        "RoiAlign", ["x", "r", "b"], ["y"], **attributes, coordinate_transformation_mode=transformation
    )
    expected: Any = onnx.reference.ReferenceEvaluator(of_node(node, feed, 22)).run(None, feed)
    np.testing.assert_allclose(y, expected[0], rtol=1e-5, atol=2e-6)


def test_the_sums_of_long_filters_of_one_channel_are_nearer_than_running_sums(device: dml.Device) -> None:
    """Logarithms of what such filters leave of a tone show each rounding."""
    taps, filters, stride, dilation = 256, 12, 32, 2
    time = np.arange(4000)
    signal = np.array([np.sin(0.3 * time), np.sin(0.7 * time)], np.float32)[:, None]
    bank = np.hanning(taps) * np.cos(np.arange(filters)[:, None] * np.arange(taps) * 0.2)
    weights, bias = bank.astype(np.float32)[:, None], numbers(filters)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[stride], dilations=[dilation])
    model = of_node(node, {"x": signal, "w": weights, "b": bias})
    del model.graph.input[1:]
    model.graph.initializer.extend(
        [onnx.numpy_helper.from_array(weights, "w"), onnx.numpy_helper.from_array(bias, "b")]
    )
    (found,) = ort.InferenceSession(model, device=device, strict=True).run(None, {"x": signal})
    reach = (taps - 1) * dilation + 1
    frames = np.lib.stride_tricks.sliding_window_view(signal, reach, axis=2)[:, :, ::stride, ::dilation]
    exact = np.einsum("nctk,fck->nft", frames.astype("f8"), weights.astype("f8")) + bias[:, None]
    running = np.cumsum(frames * weights[None, :, 0, None], axis=-1, dtype=np.float32)[..., -1] + bias[:, None]
    assert found.shape == exact.shape
    assert np.std(found - exact) < 0.75 * np.std(running - exact)
    for axis in (0, 2):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"open{axis}"
    (of_open_sizes,) = ort.InferenceSession(model, device=device, strict=True).run(None, {"x": signal})
    np.testing.assert_array_equal(of_open_sizes, found)
