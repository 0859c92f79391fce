"""Operators of ONNX Runtime's domain that are others with more around them, beside ONNX Runtime or NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.beside_onnx_runtime import Arrays, compare, numbers
from tests.onnx.test_operators import erf, of_node, run

_MICROSOFT: dict[str, Any] = {"domain": "com.microsoft"}

_ACTIVATIONS: dict[str, list[float]] = {
    **{"Relu": [], "Tanh": [], "Sigmoid": []},
    **{"LeakyRelu": [0.1], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4]},
}


@pytest.mark.parametrize("activation", list(_ACTIVATIONS))
def test_convolutions_with_activations(device: dml.Device, activation: str) -> None:
    feed: Arrays = {"x": numbers(2, 4, 6, 5), "w": numbers(6, 2, 3, 2, seed=1), "b": numbers(6, seed=2)}
    more: dict[str, Any] = {"activation": activation}
    more |= {"activation_params": _ACTIVATIONS[activation]} if _ACTIVATIONS[activation] else {}
    compare(device, "FusedConv", feed, group=2, strides=[2, 1], auto_pad="SAME_LOWER", **more, **_MICROSOFT)
    if activation == "Relu":  # the only one that ONNX Runtime adds something before
        feed["z"] = numbers(2, 6, 4, 4, seed=3)
        compare(device, "FusedConv", feed, group=2, activation="Relu", **_MICROSOFT)


def test_channels_that_come_last_are_convolved_and_pooled(device: dml.Device) -> None:
    x, w = numbers(2, 6, 5, 4), numbers(6, 2, 3, 3, seed=1)
    attributes: dict[str, Any] = {"group": 2, "strides": [2, 2], "pads": [1, 0, 1, 2]}
    first: Arrays = {"x": np.ascontiguousarray(x.transpose(0, 3, 1, 2)), "w": w}
    (expected,) = compare(device, "Conv", first, **attributes)
    (y,) = run(device, helper.make_node("NhwcConv", ["x", "w"], ["y"], **attributes, **_MICROSOFT), {"x": x, "w": w})
    np.testing.assert_allclose(y, expected.transpose(0, 2, 3, 1), 1e-5, 1e-5)
    window: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1], "ceil_mode": 1}
    compare(device, "NhwcMaxPool", {"x": (x * 40).astype(np.int8)}, **window, **_MICROSOFT)


def test_the_padding_of_a_convolution_backwards_is_an_input(device: dml.Device) -> None:
    feed: Arrays = {"x": numbers(1, 2, 4, 5), "w": numbers(2, 3, 3, 3, seed=1), "p": np.array([1, 0, 1, 2])}
    compare(device, "ConvTransposeWithDynamicPads", feed, strides=[2, 1], **_MICROSOFT)


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "LeakyRelu", "HardSigmoid", "Elu", "Softplus"])
def test_products_with_activations(device: dml.Device, activation: str) -> None:
    feed: Arrays = {"a": numbers(5, 3), "b": numbers(4, 5, seed=1), "c": numbers(4, seed=2)}
    numbers_of: dict[str, Any] = {"activation_alpha": 0.3, "activation_beta": 0.4}
    more: dict[str, Any] = {"activation": activation, "transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}
    compare(device, "FusedGemm", feed, **more, **numbers_of, **_MICROSOFT)


def test_products_whose_first_axis_stands_before_the_batch(device: dml.Device) -> None:
    feed: Arrays = {"a": numbers(3, 2, 5), "b": numbers(2, 4, 5, seed=1)}
    compare(device, "FusedMatMul", feed, transBatchA=1, transB=1, **_MICROSOFT)
    a, b = numbers(2, 3, 5), numbers(2, 5, 4, seed=1)
    attributes: dict[str, Any] = {"activation": "Softmax", "activation_axis": -1, "alpha": 0.5}
    node = helper.make_node("FusedMatMulActivation", ["a", "b"], ["y"], **attributes, **_MICROSOFT)
    (y,) = run(device, node, {"a": a, "b": b})
    scores = np.exp(0.5 * np.matmul(a.astype(np.float64), b))
    np.testing.assert_allclose(y, scores / scores.sum(-1, keepdims=True), 1e-5, 1e-6)


@pytest.mark.parametrize("has_all", [False, True])
def test_embeddings_are_added_and_normalized(device: dml.Device, has_all: bool) -> None:
    words = np.array([[1, 3, 0, 8], [2, 2, 7, 5]], np.int32)
    feed: Arrays = {"ids": words, "words": numbers(9, 6), "places": numbers(7, 6, seed=1)}
    feed |= {"gamma": numbers(6, seed=2), "beta": numbers(6, seed=3)}
    names = ["ids", "", "words", "places", "", "gamma", "beta"]
    if has_all:
        feed |= {"segments": words % 2, "kinds": numbers(2, 6, seed=4), "at": words[:, ::-1] % 7}
        feed["mask"] = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], np.int32)
        names = ["ids", "segments", "words", "places", "kinds", "gamma", "beta", "mask", "at"]
    outputs = ["y", "counts", "sum"] if has_all else ["y", "counts"]
    compare(device, "EmbedLayerNormalization", feed, names=names, outputs=outputs, epsilon=1e-5, **_MICROSOFT)


@pytest.mark.parametrize("kind", ["bytes of 4 bits", "bytes", "UINT4", "INT4"])
@pytest.mark.parametrize("columns", [32, 96])
@pytest.mark.parametrize("has_zero", [False, True])
def test_rows_of_blocks_are_gathered(device: dml.Device, kind: str, columns: int, has_zero: bool) -> None:
    generator, blocks = np.random.default_rng(columns), columns // 32
    data = generator.integers(0, 256, (7, columns), np.uint8)
    zeros = generator.integers(0, 256, (7, blocks), np.uint8)
    if kind == "bytes of 4 bits":
        data, zeros = data[:, : columns // 2], zeros[:, : -(-blocks // 2)]
    elif kind != "bytes":
        dtype, middle = (ml_dtypes.uint4, 0) if kind == "UINT4" else (ml_dtypes.int4, 8)
        data, zeros = ((array.astype(np.int8) % 16 - middle).astype(dtype) for array in (data, zeros))
    feed: Arrays = {"data": data, "indices": np.array([[6, 0], [3, -1]]), "scales": np.abs(numbers(7, blocks))}
    if has_zero:
        feed["zeros"] = zeros
    bits = 8 if kind == "bytes" else 4
    constants = [name for name in feed if name != "indices"]
    more: dict[str, Any] = {"block_size": 32, "bits": bits, "quantize_axis": 1}
    compare(device, "GatherBlockQuantized", feed, opset=21, constants=constants, **more, **_MICROSOFT)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("is_last", [0, 1])
def test_groups_of_channels_are_normalized(device: dml.Device, dtype: type, is_last: int) -> None:
    given = (numbers(2, 3, 5, 8), numbers(2, 8, seed=1), numbers(8, seed=4))
    halves: list[npt.NDArray[Any]] = [array.astype(dtype) for array in given]
    x, skip, bias = halves
    gamma, beta = numbers(8, seed=2), numbers(8, seed=3)
    total = x.astype(np.float64) + skip[:, None, None, :] + bias
    grouped = total.reshape(2, 3, 5, 4, 2)
    mean, variance = grouped.mean((1, 2, 4), keepdims=True), grouped.var((1, 2, 4), keepdims=True)
    plain = ((grouped - mean) / np.sqrt(variance + 1e-3)).reshape(x.shape) * gamma + beta
    expected = plain / (1 + np.exp(-plain))

    def ordered(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return array if is_last else np.ascontiguousarray(np.moveaxis(array, -1, 1))

    attributes: dict[str, Any] = {"groups": 4, "activation": 1, "epsilon": 1e-3, "channels_last": is_last}
    feed: Arrays = {"x": ordered(x), "gamma": gamma, "beta": beta, "skip": skip, "bias": bias}
    node = helper.make_node("SkipGroupNorm", list(feed), ["y", "sum"], **attributes, **_MICROSOFT)
    y, added = run(device, node, feed)
    tolerance = 1e-5 if dtype is np.float32 else 2e-3
    np.testing.assert_allclose(y, ordered(expected), tolerance, tolerance)
    np.testing.assert_allclose(added, ordered(total), tolerance, tolerance)
    feed = {"x": ordered(total.astype(dtype)), "gamma": gamma, "beta": beta}
    (y,) = run(device, helper.make_node("GroupNorm", list(feed), ["y"], **attributes, **_MICROSOFT), feed)
    np.testing.assert_allclose(y, ordered(expected), 3 * tolerance, 3 * tolerance)


def test_one_half_is_gated_by_the_other(device: dml.Device) -> None:
    x, bias = numbers(2, 3, 8), numbers(8, seed=1)
    (y,) = run(device, helper.make_node("BiasSplitGelu", ["x", "b"], ["y"], **_MICROSOFT), {"x": x, "b": bias})
    left, right = np.split(x.astype(np.float64) + bias, 2, -1)
    np.testing.assert_allclose(y, left * right * 0.5 * (1 + erf(right / np.sqrt(2))), 1e-5, 1e-6)


@pytest.mark.parametrize("dtypes", [(np.uint8, np.int8), (np.uint8, np.uint8)])  # ONNX Runtime has no others
@pytest.mark.parametrize("past", [None, 0, 3])
def test_attention_of_integer_projections(device: dml.Device, dtypes: tuple[type, type], past: int | None) -> None:
    generator = np.random.default_rng(1)
    feed: Arrays = {
        "x": generator.integers(0, 120, (2, 4, 6)).astype(dtypes[0]),
        "w": generator.integers(0, 100, (6, 24)).astype(dtypes[1]),
        "b": numbers(24),
        "xs": np.array(0.02, np.float32),
        "ws": np.array(0.03, np.float32),
        "m": np.array([4, 2], np.int32),
        "xz": np.array(11, dtypes[0]),
        "wz": np.array(7, dtypes[1]),
    }
    outputs = ["y"]
    if past is not None:
        feed["past"] = numbers(2, 2, 2, past, 4, seed=1)
        outputs.append("present")
    compare(device, "QAttention", feed, outputs=outputs, num_heads=2, unidirectional=1, **_MICROSOFT)


def test_decoders_begin_without_a_past(device: dml.Device) -> None:
    feed: Arrays = {name: numbers(2, 3, 8, seed=seed) for seed, name in enumerate("qkv")}
    feed |= {name: np.zeros((2, 2, 0, 4), np.float32) for name in ("past_key", "past_value")}
    names, outputs = [*"qkv", "", "", "", "past_key", "past_value"], ["y", "key", "value"]
    compare(device, "MultiHeadAttention", feed, names=names, outputs=outputs, num_heads=2, **_MICROSOFT)
    feed = {"x": numbers(2, 3, 6), "w": numbers(6, 24, seed=1), "b": numbers(24, seed=2)}
    feed["past"] = np.zeros((2, 2, 2, 0, 4), np.float32)
    names = ["x", "w", "b", "", "past"]
    compare(device, "Attention", feed, names=names, outputs=["y", "p"], num_heads=2, unidirectional=1, **_MICROSOFT)


def test_the_place_of_rotary_embeddings_may_be_a_scalar(device: dml.Device) -> None:
    feed: Arrays = {"x": numbers(2, 3, 8), "place": np.array(2), "cos": numbers(9, 2), "sin": numbers(9, 2, seed=1)}
    compare(device, "RotaryEmbedding", feed, num_heads=2, **_MICROSOFT)


def test_skipped_sums_are_normalized_by_onnx_runtime_s_epsilon(device: dml.Device) -> None:
    feed: Arrays = {"x": numbers(2, 8) * 1e-4, "skip": numbers(2, 8, seed=1) * 1e-4, "gamma": numbers(8, seed=2)}
    compare(device, "SkipLayerNormalization", feed, **_MICROSOFT)
    feed = {"x": numbers(4, 5), "k": np.array(-1)}
    compare(device, "Trilu", feed, upper=0, constants=["k"], **_MICROSOFT)


def test_a_node_that_neither_computes_says_why_the_device_does_not(device: dml.Device) -> None:
    node = helper.make_node("GroupNorm", ["x", "g", "b"], ["y"], groups=4, activation=0, **_MICROSOFT)
    feed: Arrays = {"x": numbers(1, 2, 2, 6), "g": numbers(6), "b": numbers(6)}
    with pytest.raises(
        dml.ModelFileError, match=r"\(GroupNorm\): cannot be computed.*; the device: 4 groups of 6 channels$"
    ):
        ort.InferenceSession(of_node(node, feed), device=device).run(None, feed)
