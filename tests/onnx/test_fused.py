"""Operators of ONNX Runtime's domain, and nodes whose shapes or rules ONNX Runtime has otherwise than ONNX."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.models import model, parsed
from tests.onnx.test_operators import Arrays, erf, numbers, of_node, run

_MICROSOFT: dict[str, Any] = {"domain": "com.microsoft"}


def test_channels_that_come_last_are_convolved(device: dml.Device) -> None:
    x, w = numbers(2, 6, 5, 4), numbers(6, 2, 3, 3, seed=1)
    attributes: dict[str, Any] = {"group": 2, "strides": [2, 2], "pads": [1, 0, 1, 2]}
    first: Arrays = {"x": np.ascontiguousarray(x.transpose(0, 3, 1, 2)), "w": w}
    (expected,) = run(device, helper.make_node("Conv", ["x", "w"], ["y"], **attributes), first)
    (y,) = run(device, helper.make_node("NhwcConv", ["x", "w"], ["y"], **attributes, **_MICROSOFT), {"x": x, "w": w})
    np.testing.assert_allclose(y, expected.transpose(0, 2, 3, 1), 1e-5, 1e-5)


def test_shares_of_a_product_along_its_last_axis(device: dml.Device) -> None:
    a, b = numbers(2, 3, 5), numbers(2, 5, 4, seed=1)
    attributes: dict[str, Any] = {"activation": "Softmax", "activation_axis": -1, "alpha": 0.5}
    node = helper.make_node("FusedMatMulActivation", ["a", "b"], ["y"], **attributes, **_MICROSOFT)
    (y,) = run(device, node, {"a": a, "b": b})
    scores = np.exp(0.5 * np.matmul(a.astype(np.float64), b))
    np.testing.assert_allclose(y, scores / scores.sum(-1, keepdims=True), 1e-5, 1e-6)


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


def test_a_node_that_neither_computes_says_why_the_device_does_not(device: dml.Device) -> None:
    node = helper.make_node("GroupNorm", ["x", "g", "b"], ["y"], groups=4, activation=0, **_MICROSOFT)
    feed: Arrays = {"x": numbers(1, 2, 2, 6), "g": numbers(6), "b": numbers(6)}
    with pytest.raises(
        dml.ModelFileError, match=r"\(GroupNorm\): cannot be computed.*; the device: 4 groups of 6 channels$"
    ):
        ort.InferenceSession(of_node(node, feed), device=device).run(None, feed)


def test_nan_stays_nan_behind_an_operator_that_would_take_relu_in(device: dml.Device) -> None:
    nodes = parsed("z = Gemm (x, w)  y = Relu (z)")
    made = model(nodes, {"x": [2, 2]}, ["y"], {"w": np.eye(2, dtype=np.float32)})
    x = np.array([[np.nan, 1], [-1, 2]], np.float32)
    options = ort.SessionOptions()
    (dropped,) = ort.InferenceSession(made, options, device=device).run(None, {"x": x})
    assert dropped.tolist() == [[0, 0], [0, 2]]
    options.propagate_nan = True
    session = ort.InferenceSession(made, options, device=device)
    for again in (session, pickle.loads(pickle.dumps(session))):
        (kept,) = again.run(None, {"x": x})
        assert np.isnan(kept[0]).all()
        assert kept[1].tolist() == [0, 2]


@pytest.mark.parametrize("index", [4, -5])
def test_constant_indices_beyond_an_axis_are_refused(device: dml.Device, index: int) -> None:
    made = model("[row] y = Gather (x, i)", {"x": [4, 3]}, ["y"], {"i": np.array(index)})
    with pytest.raises(dml.UnsupportedError, match=rf"'row' \(Gather\).*the index {index} is beyond the 4 elements"):
        ort.InferenceSession(made, device=device, strict=True)
    with pytest.raises(dml.ModelFileError, match="'row'"):
        ort.InferenceSession(made, device=device).run(None, {"x": numbers(4, 3)})


def test_parts_of_a_permuted_product_keep_their_order_in_memory(device: dml.Device) -> None:
    """Query, key and value behind one another, whose axes are put in order before each is taken: nothing is copied
    back for whom reads them as they lay. Padding by nothing takes no time, either."""
    text = (
        "p = Pad (x, none)  r = Reshape (p, shape)  t = Transpose <perm = [2, 0, 3, 1, 4]> (r)"
        "  v = Gather <axis = 0> (t, last)  b = Transpose <perm = [0, 2, 1, 3]> (v)  y = Reshape (b, back)"
    )
    constants = {"none": np.zeros(6, np.int64), "shape": np.array([2, 5, 3, 4, 8]), "back": np.array([2, 5, 32])}
    made = model(text, {"x": [2, 5, 96]}, ["y", "v"], {**constants, "last": np.array(-1)})
    x = numbers(2, 5, 96)
    session = ort.InferenceSession(made, device=device, strict=True)
    y, value = session.run(None, {"x": x})
    assert y.tolist() == x[:, :, 64:].tolist()
    assert value.tolist() == x[:, :, 64:].reshape(2, 5, 4, 8).transpose(0, 2, 1, 3).tolist()
    alone = model(text, {"x": [2, 5, 96]}, ["y"], {**constants, "last": np.array(-1)})
    assert len(ort.InferenceSession(alone, device=device).profile({"x": x}, 1)) == 1
