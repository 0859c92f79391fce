"""Nodes whose shapes or rules ONNX Runtime has otherwise than ONNX's inference, or that its programs alone have."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.beside_onnx_runtime import Arrays, compare, numbers
from tests.onnx.models import model


@pytest.mark.parametrize(
    ("size", "attributes"),
    [
        (2, {"strides": [2], "output_padding": [1], "auto_pad": "SAME_UPPER"}),
        (4, {"strides": [3], "dilations": [2], "output_padding": [2], "auto_pad": "SAME_LOWER"}),
        (2, {"strides": [3], "auto_pad": "SAME_UPPER"}),
        (6, {"output_shape": [4]}),
        (6, {"output_shape": [14], "strides": [2], "auto_pad": "SAME_UPPER"}),
        (5, {"auto_pad": "VALID", "strides": [2], "output_padding": [1]}),
    ],
)
def test_convolutions_backwards_are_as_large_as_onnx_runtime_s(
    device: dml.Device, size: int, attributes: dict[str, Any]
) -> None:
    feed: Arrays = {"x": numbers(1, 2, size), "w": numbers(2, 3, 3, seed=1), "b": numbers(3, seed=2)}
    compare(device, "ConvTranspose", feed, **attributes)


@pytest.mark.parametrize("opset", [11, 19])
@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize(
    ("size", "attributes"),
    [
        (5, {"kernel_shape": [2], "strides": [3], "auto_pad": "SAME_UPPER", "ceil_mode": 1}),
        (6, {"kernel_shape": [1], "strides": [3], "pads": [0, 0], "ceil_mode": 1}),
        (7, {"kernel_shape": [3], "strides": [2], "pads": [1, 2], "ceil_mode": 1}),
        (2, {"kernel_shape": [3], "strides": [2], "auto_pad": "VALID"}),
    ],
)
def test_pools_have_as_many_windows_as_onnx_runtime_s(
    device: dml.Device, op_type: str, opset: int, size: int, attributes: dict[str, Any]
) -> None:
    compare(device, op_type, {"x": numbers(1, 2, size)}, opset=opset, **attributes)


def test_padding_that_counts_counts_together_with_ceil_mode(device: dml.Device) -> None:
    feed: Arrays = {"x": numbers(1, 2, 6, 7)}
    window: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}
    compare(device, "AveragePool", feed, ceil_mode=1, count_include_pad=1, **window)


@pytest.mark.parametrize("shape", [(2, 3, 9), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_places_of_maxima_are_counted_in_either_order(device: dml.Device, shape: tuple[int, ...]) -> None:
    window = [2] * (len(shape) - 2)
    for order in (0, 1):
        feed: Arrays = {"x": np.asarray(numbers(*shape))}
        compare(device, "MaxPool", feed, outputs=["y", "i"], kernel_shape=window, strides=window, storage_order=order)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(-9, -9, -1), (-9, 2**31 - 1, -2), (1, 2**63 - 1, -1), (9, -9, -3), (-2, 9, 1), (-9, 9, 2), (4, -4, -2)],
)
def test_slices_begin_and_end_where_onnx_runtime_s_do(device: dml.Device, start: int, end: int, step: int) -> None:
    bounds = {name: np.array([bound], np.int64) for name, bound in zip("seat", (start, end, -1, step), strict=True)}
    compare(device, "Slice", {"x": numbers(3, 5), **bounds}, opset=13, constants=list(bounds))


def test_elements_are_gathered_by_fewer_indices_than_there_are(device: dml.Device) -> None:
    indices = np.array([[[1, -2], [0, 1]]] * 5)
    compare(device, "GatherElements", {"x": numbers(3, 4, 2), "i": indices}, axis=0)
    compare(device, "GatherElements", {"x": numbers(5, 2, 4), "i": indices}, axis=2)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("sizes", [[3, 1], [6, 5]])
def test_regions_beyond_the_picture_are_extrapolated(device: dml.Device, mode: str, sizes: list[int]) -> None:
    feed: Arrays = {
        "x": numbers(1, 2, 4, 4),
        "roi": np.array([0.1, -0.1, 1.2, 1.1], np.float32),
        "sizes": np.array(sizes),
    }
    attributes: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize", "axes": [2, 3], "mode": mode}
    names = ["x", "roi", "", "sizes"]
    compare(device, "Resize", feed, constants=["roi", "sizes"], names=names, extrapolation_value=-3.0, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_pictures_of_five_axes_are_resized_on_the_device(device: dml.Device, mode: str) -> None:
    feed: Arrays = {"x": numbers(2, 2, 2, 3, 3)}
    compare(device, "Upsample", feed, opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 2.0, 1.5])


def test_batch_normalization_of_single_elements(device: dml.Device) -> None:
    given = {name: np.abs(numbers(3, 2, seed=seed)) for seed, name in enumerate(["scale", "bias", "mean", "variance"])}
    compare(device, "BatchNormalization", {"x": numbers(2, 3, 2), **given}, opset=7, spatial=0)


@pytest.mark.parametrize("op_type", ["ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_logarithms_of_sums_of_integers_are_integers(device: dml.Device, op_type: str, dtype: type) -> None:
    x: npt.NDArray[Any] = np.array([[1, 9, 9], [0, 0, 0], [-5, 2, 1], [400, 3, 3]], dtype)
    compare(device, op_type, {"x": x, "axes": np.array([1])}, opset=18, constants=["axes"])
    compare(device, op_type, {"x": x}, opset=13, axes=[0], keepdims=0)


@pytest.mark.parametrize("has_window", [False, True])
def test_signals_of_two_axes_are_transformed(device: dml.Device, has_window: bool) -> None:
    feed: Arrays = {"x": numbers(2, 40), "step": np.array(3)}
    feed |= {"w": numbers(8, seed=1)} if has_window else {"length": np.array(8)}
    names = ["x", "step", "w"] if has_window else ["x", "step", "", "length"]
    compare(device, "STFT", feed, opset=17, names=names, constants=list(feed)[1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_stays_nan_where_that_is_asked_for(device: dml.Device, dtype: type) -> None:
    x: npt.NDArray[Any] = np.array([[np.nan, 1, -2, np.inf], [-np.inf, 0, 3, 0.5]], dtype)
    y: npt.NDArray[Any] = np.array([1, np.nan, -3, np.nan], dtype)
    bounds: Arrays = {"low": np.array(-1, dtype), "high": np.array(2, dtype)}
    compare(device, "Clip", {"x": x, **bounds}, opset=13, constants=list(bounds), propagate_nan=True)
    for op_type in ("Max", "Min"):
        compare(device, op_type, {"x": x, "other": y}, opset=13, propagate_nan=True)
    if dtype is np.float32:  # the type that ONNX Runtime has them for, or in which it keeps NaN
        compare(device, "Sign", {"x": x}, opset=13, propagate_nan=True)
        compare(device, "Relu", {"x": x}, opset=14, propagate_nan=True)
        for op_type in ("ReduceMax", "ReduceMin"):
            compare(device, op_type, {"x": x}, opset=13, axes=[1], propagate_nan=True)
            compare(device, op_type, {"x": x}, opset=13, axes=[0], keepdims=0, propagate_nan=True)
        feed: Arrays = {"x": x.reshape(1, 1, 2, 4), "w": np.ones((1, 1, 1, 1), dtype)}
        compare(device, "FusedConv", feed, activation="Relu", domain="com.microsoft", propagate_nan=True)


def test_nan_stays_nan_behind_an_operator_that_would_take_relu_in(device: dml.Device) -> None:
    nodes = [helper.make_node("Gemm", ["x", "w"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
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
    made = model(
        [helper.make_node("Gather", ["x", "i"], ["y"], name="row")], {"x": [4, 3]}, ["y"], {"i": np.array(index)}
    )
    with pytest.raises(dml.UnsupportedError, match=rf"'row' \(Gather\).*the index {index} is beyond the 4 elements"):
        ort.InferenceSession(made, device=device, strict=True)
    with pytest.raises(dml.ModelFileError, match="'row'"):
        ort.InferenceSession(made, device=device).run(None, {"x": numbers(4, 3)})
