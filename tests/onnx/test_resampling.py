"""Resize, GridSample and transforms beside ONNX Runtime and NumPy; boxes on the host beside the plain definition."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.models import model
from tests.onnx.test_operators import Arrays, numbers, of_node, run


def beside_onnx_runtime(device: dml.Device, node: Any, feed: Arrays, opset: int, atol: float = 1e-5) -> None:
    """Compares one node with ONNX Runtime's CPU provider."""
    made = of_node(node, feed, opset)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feed)
    (found,) = run(device, node, feed, opset=opset)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-4, atol=atol)


@pytest.mark.parametrize(
    ("shape", "scales", "attributes"),
    [
        ((1, 2, 7, 9), (1, 1, 1.7, 0.6), {"mode": "cubic"}),
        ((1, 1, 5, 6), (1, 1, 2.0, 2.0), {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
        (
            (2, 1, 6, 5),
            (1, 1, 0.5, 1.5),
            {
                "mode": "cubic",
                "cubic_coeff_a": -0.5,
                "exclude_outside": 1,
                "coordinate_transformation_mode": "asymmetric",
            },
        ),
        ((1, 2, 5, 3), (1, 1, 0.2, 0.4), {"mode": "cubic", "coordinate_transformation_mode": "pytorch_half_pixel"}),
        ((1, 2, 24, 19), (1, 1, 0.2, 0.7), {"mode": "linear", "antialias": 1}),
        ((1, 1, 30, 31), (1, 1, 0.1, 0.4), {"mode": "cubic", "antialias": 1, "exclude_outside": 1}),
    ],
)
def test_resize_by_weighted_elements_is_onnx_runtime_s(
    device: dml.Device, shape: tuple[int, ...], scales: tuple[float, ...], attributes: dict[str, Any]
) -> None:
    made = model(
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)],
        {"x": list(shape)},
        ["y"],
        {"scales": np.array(scales, np.float32)},
        opset=18,
    )
    x = numbers(*shape)
    theirs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = theirs.run(None, {"x": x})
    (found,) = ort.InferenceSession(made, device=device, strict=True).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_size_that_shrinks_to_nothing_ends_in_an_error_at_once(any_device: dml.Device) -> None:
    made = model(
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], name="tiny", mode="cubic", antialias=1)],
        {"x": [1, 1, 1, 2**23]},
        ["y"],
        {"scales": np.array([1, 1, 1, 3e-7], np.float32)},
        opset=18,
    )
    with pytest.raises(dml.UnsupportedError, match=r"'tiny'.*too many count for each of them"):
        ort.InferenceSession(made, device=any_device, strict=True)


def test_resize_crops_beyond_the_edges_as_the_definition_says(device: dml.Device) -> None:
    """The value of extrapolation wherever a place lies outside, also of regions that go backwards."""
    x = numbers(1, 1, 4, 5)
    region = np.array([0, 0, -0.25, 1.0, 1, 1, 1.25, -0.5], np.float32)
    made = model(
        [
            helper.make_node(
                "Resize",
                ["x", "region", "", "sizes"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="tf_crop_and_resize",
                extrapolation_value=7.5,
            )
        ],
        {"x": [1, 1, 4, 5]},
        ["y"],
        {"region": region, "sizes": np.array([1, 1, 6, 7])},
        opset=18,
    )
    (found,) = ort.InferenceSession(made, device=device, strict=True).run(None, {"x": x})
    rows = np.float64(-0.25) * 3 + np.arange(6) * 1.5 * 3 / 5
    columns = 1.0 * 4 + np.arange(7) * -1.5 * 4 / 6
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        if not (0 <= row <= 3 and 0 <= column <= 4):
            assert found[0, 0, i, j] == 7.5
            continue
        top, left = min(int(row), 2), min(int(column), 3)
        a, b = row - top, column - left
        square = x[0, 0, top : top + 2, left : left + 2].astype(np.float64)
        wanted = np.array([1 - a, a]) @ square @ np.array([1 - b, b])
        assert found[0, 0, i, j] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"),
    [
        ("bilinear", "zeros", 0),
        ("bilinear", "reflection", 1),
        ("nearest", "border", 0),
        ("bicubic", "zeros", 1),
        ("bicubic", "reflection", 0),
    ],
)
def test_grid_sample_is_onnx_runtime_s(device: dml.Device, mode: str, padding: str, corners: int) -> None:
    feed = {"x": numbers(2, 3, 5, 6), "grid": 1.8 * numbers(2, 3, 7, 2, seed=1)}
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding, align_corners=corners)
    beside_onnx_runtime(device, node, feed, 16)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_cubic_grids_bring_each_element_inside_by_itself(device: dml.Device, padding: str, corners: int) -> None:
    """As PyTorch and ONNX Runtime do it; ONNX's reference brings the place inside."""
    feed = {"x": numbers(2, 2, 5, 6), "grid": 1.8 * numbers(2, 3, 4, 2, seed=1)}
    node = helper.make_node(
        "GridSample", ["x", "grid"], ["y"], mode="cubic", padding_mode=padding, align_corners=corners
    )
    beside_onnx_runtime(device, node, feed, 20)


def test_grid_sample_of_volumes_halves_and_integers(device: dml.Device) -> None:
    volume = {"x": numbers(1, 2, 3, 4, 5), "grid": 1.5 * numbers(1, 2, 3, 2, 3, seed=1)}
    beside_onnx_runtime(device, helper.make_node("GridSample", ["x", "grid"], ["y"], mode="linear"), volume, 20)
    feed = {"x": numbers(1, 1, 4, 4).astype(np.float16), "grid": numbers(1, 2, 2, 2, seed=1).astype(np.float16)}
    (half,) = run(device, helper.make_node("GridSample", ["x", "grid"], ["y"], mode="linear"), feed, opset=20)
    wide = {name: array.astype(np.float32) for name, array in feed.items()}
    (whole,) = run(device, helper.make_node("GridSample", ["x", "grid"], ["y"], mode="linear"), wide, opset=20)
    np.testing.assert_array_equal(half, whole.astype(np.float16))
    numbered = {"x": np.arange(16, dtype=np.int32).reshape(1, 1, 4, 4), "grid": wide["grid"]}
    (integers,) = run(device, helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest"), numbered, opset=20)
    as_floats = {**numbered, "x": numbered["x"].astype(np.float32)}
    (floats,) = run(device, helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest"), as_floats, opset=20)
    np.testing.assert_array_equal(integers, floats)


def test_an_infinite_element_beyond_the_edge_of_a_grid_counts_nothing(device: dml.Device) -> None:
    x = np.array([[[[np.inf, 2], [3, 4]]]], np.float32)
    grid = np.array([[[[-9, -9], [0.5, 0.5]]]], np.float32)
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest", padding_mode="zeros")
    np.testing.assert_array_equal(run(device, node, {"x": x, "grid": grid}, opset=20)[0].reshape(-1), [0, 4])


@pytest.mark.parametrize(
    ("shape", "axis", "length", "inverse", "onesided"),
    [
        ((2, 12, 1), 1, None, 0, 0),
        ((2, 12, 1), 1, 10, 0, 1),
        ((3, 9, 4, 2), 1, 16, 0, 0),
        ((2, 4, 7, 2), 2, None, 1, 0),
        ((2, 7, 2), 1, None, 1, 1),
        ((2, 7, 2), 1, 11, 1, 1),
    ],
)
def test_transforms_are_numpy_s(
    device: dml.Device, shape: tuple[int, ...], axis: int, length: int | None, inverse: int, onesided: int
) -> None:
    x = numbers(*shape)
    made = model(
        [helper.make_node("DFT", ["x", "n" if length else "", "axis"], ["y"], inverse=inverse, onesided=onesided)],
        {"x": list(shape)},
        ["y"],
        {"axis": np.array(axis), **({"n": np.array(length)} if length else {})},
        opset=20,
    )
    (found,) = ort.InferenceSession(made, device=device, strict=True).run(None, {"x": x})
    signal = x[..., 0].astype(np.complex128) if shape[-1] == 1 else x[..., 0] + 1j * x[..., 1].astype(np.float64)
    if inverse and onesided:
        expected = np.fft.irfft(signal, length, axis=axis)[..., None]
    else:
        complex_ = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis=axis)
        if onesided:
            complex_ = np.take(complex_, range(complex_.shape[axis] // 2 + 1), axis)
        expected = np.stack([complex_.real, complex_.imag], -1)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_known", [True, False])
def test_short_time_transforms_are_numpy_s(device: dml.Device, is_known: bool) -> None:
    x, window = numbers(2, 30, 1), np.hanning(8).astype(np.float32)
    constants: Arrays = {"step": np.array(5), **({"window": window} if is_known else {})}
    inputs: dict[str, Any] = {"x": [2, 30, 1], **({} if is_known else {"window": [8]})}
    made = model([helper.make_node("STFT", ["x", "step", "window"], ["y"])], inputs, ["y"], constants, opset=17)
    feed = {"x": x, **({} if is_known else {"window": window})}
    (found,) = ort.InferenceSession(made, device=device, strict=True).run(None, feed)
    frames = np.stack([x[:, start : start + 8, 0] * window.astype(np.float64) for start in range(0, 23, 5)], 1)
    expected = np.fft.rfft(frames, axis=-1)
    np.testing.assert_allclose(found, np.stack([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-5)


def test_boxes_of_a_detector_are_chosen_in_a_moment(any_device: dml.Device) -> None:
    generator = np.random.default_rng(2)
    corners = generator.random((2, 4000, 2), np.float32)
    boxes = np.concatenate([corners, corners + 0.1 * generator.random((2, 4000, 2), np.float32)], -1)
    scores = generator.random((2, 3, 4000), np.float32).round(2)
    made = model(
        [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"])],
        {"boxes": [2, 4000, 4], "scores": [2, 3, 4000]},
        ["y"],
        {"most": np.array([50]), "overlap": np.array([0.4], np.float32), "least": np.array([0.3], np.float32)},
    )
    theirs = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = theirs.run(None, {"boxes": boxes, "scores": scores})
    session = ort.InferenceSession(made, device=any_device)
    start = time.process_time()
    (found,) = session.run(None, {"boxes": boxes, "scores": scores})
    assert time.process_time() - start < 5
    np.testing.assert_array_equal(found, expected)
    assert "depends on the data" in session.partition[0].reason


@pytest.mark.parametrize("mode", ["cubic", "linear"])
def test_a_picture_of_other_axes_keeps_them_where_nothing_is_resampled(any_device: dml.Device, mode: str) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Resize", ["t", "", "", "sizes"], ["y"], mode=mode),
    ]
    made = model(nodes, {"x": [1, 2, 3, 4]}, ["y"], {"sizes": np.array([1, 4, 2, 3], np.int64)}, opset=18)
    x = numbers(1, 2, 3, 4)
    (found,) = ort.InferenceSession(made, device=any_device, strict=True).run(None, {"x": x})
    np.testing.assert_array_equal(found, x.transpose(0, 3, 1, 2))
