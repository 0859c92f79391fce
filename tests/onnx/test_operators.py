"""Operators of ONNX Runtime's own domain, and of ONNX where the project's suite says little, beside NumPy."""

from __future__ import annotations

import math
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

Arrays = dict[str, npt.NDArray[Any]]


def run(device: dml.Device, node: onnx.NodeProto, feed: Arrays, *, opset: int = 17) -> list[Any]:
    """The outputs of one node, computed by the device alone."""
    model = of_node(node, feed, opset)
    return ort.InferenceSession(model, device=device, strict=True).run(None, feed)


def of_node(node: onnx.NodeProto, feed: Arrays, opset: int = 17) -> onnx.ModelProto:
    """A model of one node."""
    return models.model([node], feed, [name for name in node.output if name], opset=opset)


def numbers(*shape: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def erf(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(np.vectorize(math.erf)(x.astype(np.float64)))


def test_gelus_of_onnx_runtime(device: dml.Device) -> None:
    x, bias = numbers(4, 6), numbers(6, seed=1)
    exact = x * 0.5 * (1 + erf(x / math.sqrt(2)))
    (y,) = run(device, helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"), {"x": x})
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-6)
    s = x + bias
    (y,) = run(device, helper.make_node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft"), {"x": x, "b": bias})
    np.testing.assert_allclose(y, s * 0.5 * (1 + erf(s / math.sqrt(2))), rtol=1e-5, atol=1e-6)
    (y,) = run(device, helper.make_node("FastGelu", ["x", "b"], ["y"], domain="com.microsoft"), {"x": x, "b": bias})
    bent = np.tanh(math.sqrt(2 / math.pi) * (s + 0.044715 * s**3))
    np.testing.assert_allclose(y, 0.5 * s * (1 + bent), rtol=1e-5, atol=1e-6)
    (y,) = run(device, helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft", alpha=1.5), {"x": x})
    np.testing.assert_allclose(y, x / (1 + np.exp(-1.5 * x)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (4, 3, 2)), ((2, 1, 4, 5, 2, 3), (5, 3, 2))])
def test_products_of_any_rank_are_numpy_s(device: dml.Device, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    feed: Arrays = {"a": numbers(*a), "b": numbers(*b, seed=1)}
    (y,) = run(device, helper.make_node("MatMul", ["a", "b"], ["y"]), feed)
    expected = np.matmul(feed["a"].astype(np.float64), feed["b"])
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bij,bkj->bik", "i,j->ij", "...ij,...j->...i", "ij->ji"])
def test_einsum_of_two_tensors_is_numpy_s(device: dml.Device, equation: str) -> None:
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5}
    terms = equation.split("->")[0].replace("...", "b").split(",")
    feed: Arrays = {f"t{n}": numbers(*(sizes[i] for i in term), seed=n) for n, term in enumerate(terms)}
    (y,) = run(device, helper.make_node("Einsum", list(feed), ["y"], equation=equation), feed)
    np.testing.assert_allclose(y, np.einsum(equation, *feed.values()), rtol=1e-5, atol=1e-6)


def test_einsum_of_float16_rounds_once(device: dml.Device) -> None:
    feed: Arrays = {"a": numbers(3, 9).astype(np.float16), "b": numbers(9, 7, seed=1).astype(np.float16)}
    (y,) = run(device, helper.make_node("Einsum", ["a", "b"], ["y"], equation="ij,jk->"), feed)
    assert y == np.einsum("ij,jk->", *(array.astype(np.float64) for array in feed.values())).astype(np.float16)


def test_equal_values_are_0_apart_from_their_mean(device: dml.Device) -> None:
    (y,) = run(
        device, helper.make_node("MeanVarianceNormalization", ["x"], ["y"]), {"x": np.full((1, 2, 1, 1), 3.7, "f4")}
    )
    np.testing.assert_array_equal(y, np.zeros((1, 2, 1, 1)))


def test_one_dimension_convolves_and_pools_as_two_of_which_one_is_single(device: dml.Device) -> None:
    x, w = numbers(2, 4, 9), numbers(6, 2, 3, seed=1)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=2, strides=[2], dilations=[2], pads=[1, 2])
    (y,) = run(device, node, {"x": x, "w": w})
    session = models.onnx_runtime(of_node(node, {"x": x, "w": w}))
    np.testing.assert_allclose(y, session.run(None, {"x": x, "w": w})[0], rtol=1e-5, atol=1e-6)
    (y,) = run(device, helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2]), {"x": x})
    np.testing.assert_array_equal(y, np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2].max(-1))


def test_a_quantized_sum_is_onnx_runtime_s(device: dml.Device) -> None:
    feed: Arrays = {
        "a": np.arange(12, dtype=np.uint8).reshape(3, 4) * 20,
        "as": np.array(0.5, np.float32),
        "az": np.array(128, np.uint8),
        "b": np.arange(4, dtype=np.uint8) * 50,
        "bs": np.array(0.25, np.float32),
        "bz": np.array(3, np.uint8),
        "cs": np.array(1.0, np.float32),
        "cz": np.array(100, np.uint8),
    }
    node = helper.make_node("QLinearAdd", list(feed), ["y"], domain="com.microsoft")
    (y,) = run(device, node, feed)
    a, b = (feed["a"] - 128.0) * 0.5, (feed["b"] - 3.0) * 0.25
    np.testing.assert_array_equal(y, np.clip(np.rint(a + b) + 100, 0, 255))


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
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"]),
        helper.make_node("DequantizeLinear", ["turned", "s"], ["y"]),
        helper.make_node("Flatten", ["x"], ["flat"], axis=0),
        helper.make_node("DequantizeLinear", ["flat", "s"], ["z"]),
    ]
    model = models.model(nodes, {"x": (element, (3, 5))}, ["y", "z"], {"s": np.array(0.5, np.float32)}, opset=21)
    values = np.arange(15).reshape(3, 5) - 8
    y, z = ort.InferenceSession(model, device=device).run(None, {"x": _in_halves(values, element)})
    np.testing.assert_array_equal(y, values.T / 2)
    np.testing.assert_array_equal(z, values.reshape(1, 15) / 2)


@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_running_sums_and_products_are_numpy_s(device: dml.Device, exclusive: int, reverse: int) -> None:
    x = np.random.default_rng(1).integers(1, 4, (2, 3, 5)).astype(np.float32)
    runs: list[tuple[str, Any, int]] = [("CumSum", np.cumsum, 14), ("CumProd", np.cumprod, 26)]
    for op_type, running, opset in runs:
        node = helper.make_node(op_type, ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
        model = of_node(node, {"x": x}, opset)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(-2, np.int64), "axis"))
        (y,) = ort.InferenceSession(model, device=device, strict=True).run(None, {"x": x})
        turned = x[:, ::-1] if reverse else x
        first = np.full_like(x[:, :1], op_type == "CumProd")
        wanted = running(np.concatenate([first, turned[:, :-1]], 1) if exclusive else turned, axis=1)
        np.testing.assert_array_equal(y, wanted[:, ::-1] if reverse else wanted)


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


def test_identity_like_matrices_follow_from_shapes(any_device: dml.Device) -> None:
    (y,) = run(any_device, helper.make_node("EyeLike", ["x"], ["y"], k=1, dtype=7), {"x": numbers(3, 4)})
    np.testing.assert_array_equal(y, np.eye(3, 4, 1, dtype=np.int64))


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_regions_are_pooled_as_by_onnx_runtime(device: dml.Device, scale: float) -> None:
    """Inside, across the lower edges, of one pixel, and inverted."""
    x = numbers(2, 3, 9, 11)
    rois = np.array(
        [[0, 0, 0, 10, 8], [1, 2, 3, 7, 4], [1, 8, 6, 30, 30], [0, 5, 5, 5, 5], [1, 6, 6, 3, 2]], np.float32
    )
    rois[:, 1:] /= scale
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[4, 2], spatial_scale=scale)
    feed = {"x": x, "r": rois}
    (y,) = run(device, node, feed)
    np.testing.assert_array_equal(y, models.onnx_runtime(of_node(node, feed)).run(None, feed)[0])


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((7,), (3,), {}),
        ((6, 5), (2, 3), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
        ((7, 8), (2, 2), {"dilations": [3, 2]}),
        ((3, 4, 5), (1, 2, 3), {"pads": [0, 1, 0, 0, 0, 2]}),
    ],
)
def test_columns_are_folded_as_by_definition(
    device: dml.Device, image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    """The columns of a window of ones at each position: small integers, whose sums are exact."""
    rank = len(image)
    strides, dilations = attributes.get("strides", [1] * rank), attributes.get("dilations", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    counts = [
        (image[i] + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    ]
    block_size = math.prod(block)
    x = np.random.default_rng(0).integers(-9, 10, (2, 3 * block_size, math.prod(counts))).astype(np.float32)
    expected = np.zeros((2, 3, *image), np.float32)
    for index, offset in enumerate(np.ndindex(*block)):
        for column, position in enumerate(np.ndindex(*counts)):
            at = [position[i] * strides[i] + offset[i] * dilations[i] - pads[i] for i in range(rank)]
            if all(0 <= where < size for where, size in zip(at, image, strict=True)):
                where_added: tuple[Any, ...] = (slice(None), slice(None), *at)
                expected[where_added] += x[:, index::block_size, column]
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"], **attributes)
    feed: Arrays = {"x": x, "image": np.array(image, np.int64), "block": np.array(block, np.int64)}
    for element in (np.float32, np.float16):
        (y,) = run(device, node, {**feed, "x": x.astype(element)}, opset=18)
        np.testing.assert_array_equal(y, expected.astype(element))


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


@pytest.mark.parametrize("op_type", ["AveragePool", "LpPool", "Conv"])
@pytest.mark.parametrize("automatic", ["SAME_UPPER", "SAME_LOWER"])
def test_strides_beyond_a_window_pass_over_what_onnx_runtime_passes_over(
    device: dml.Device, op_type: str, automatic: str
) -> None:
    for size, width, stride in ((6, 1, 3), (9, 1, 4), (5, 2, 5), (10, 1, 5)):
        feed = {"x": numbers(1, 1, 2, size)}
        if op_type == "Conv":
            feed["w"] = numbers(1, 1, 1, width)
        node = helper.make_node(
            op_type, list(feed), ["y"], kernel_shape=[1, width], strides=[1, stride], auto_pad=automatic
        )
        model = of_node(node, feed, 22)
        expected = models.onnx_runtime(model).run(None, feed)[0]
        (found,) = run(device, node, feed, opset=22)
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=f"{size} by {width}, {stride} apart")


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_axes_that_a_tensor_lacks_are_left_out_of_its_mean_and_variance(
    device: dml.Device, shape: tuple[int, ...]
) -> None:
    node, feed = helper.make_node("MeanVarianceNormalization", ["x"], ["y"]), {"x": numbers(*shape)}
    expected = models.onnx_runtime(of_node(node, feed)).run(None, feed)[0]
    np.testing.assert_allclose(run(device, node, feed)[0], expected, rtol=1e-5, atol=1e-6)


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


@pytest.mark.parametrize("opset", [13, 17, 22])
@pytest.mark.parametrize("name", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses_are_computed_as_they_are_defined_whatever_changed_of_that_since(
    device: dml.Device, name: str, opset: int
) -> None:
    """ONNX defines them by operators that later versions have other forms of."""
    feed: Arrays = {
        "x": numbers(3, 5, 4),
        "t": np.random.default_rng(1).integers(0, 5, (3, 4)),
        "w": numbers(5, seed=2),
    }
    node = helper.make_node(name, ["x", "t", "w"], ["y"], reduction="none")
    (y,) = run(device, node, feed, opset=opset)
    model = of_node(node, feed, opset).SerializeToString()
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)[0]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
