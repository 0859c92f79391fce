"""Resize, GridSample and transforms beside ONNX Runtime and NumPy; boxes on the host beside the plain definition."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.models import model
from tests.onnx.test_operators import numbers, run


def test_a_size_that_shrinks_to_nothing_ends_in_an_error_at_once(any_device: dml.Device) -> None:
    made = model(
        '[tiny] y = Resize <mode = "cubic", antialias = 1> (x,, scales)',
        {"x": [1, 1, 1, 2**23]},
        ["y"],
        {"scales": np.array([1, 1, 1, 3e-7], np.float32)},
        opset=18,
    )
    with pytest.raises(dml.UnsupportedError, match=r"'tiny'.*too many count for each of them"):
        ort.InferenceSession(made, device=any_device, strict=True)


@pytest.mark.parametrize("length", [5, "n"])
def test_a_length_by_a_factor_is_rounded_as_onnx_runtime_does(device: dml.Device, length: int | str) -> None:
    """2.6 is a little less in FLOAT, whose product with 5 is 13 all the same."""
    text = 'y = Resize <mode = "nearest", axes = [1]> (x,, scales)'
    made = model(text, {"x": [2, length]}, ["y"], {"scales": np.array([2.6], np.float32)}, opset=18)
    feed = {"x": numbers(2, 5)}
    (found,) = ort.InferenceSession(made, device=device, strict=True).run(None, feed)
    assert np.array_equal(found, models.by_onnx_runtime(made, feed)[0])


def test_resize_crops_beyond_the_edges_as_the_definition_says(device: dml.Device) -> None:
    """The value of extrapolation wherever a place lies outside, also of regions that go backwards."""
    x = numbers(1, 1, 4, 5)
    region = np.array([0, 0, -0.25, 1.0, 1, 1, 1.25, -0.5], np.float32)
    made = model(
        'y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 7.5>'
        " (x, region,, sizes)",
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


def test_grid_sample_of_halves_and_integers(device: dml.Device) -> None:
    def sampled(x: Any, grid: Any, mode: str) -> Any:
        node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode)
        return run(device, node, {"x": x, "grid": grid}, opset=20)[0]

    x, grid = numbers(1, 1, 4, 4).astype(np.float16), numbers(1, 2, 2, 2, seed=1).astype(np.float16)
    whole = sampled(x.astype(np.float32), grid.astype(np.float32), "linear")
    np.testing.assert_array_equal(sampled(x, grid, "linear"), whole.astype(np.float16))
    integers, grid = np.arange(16, dtype=np.int32).reshape(1, 1, 4, 4), grid.astype(np.float32)
    floats = sampled(integers.astype(np.float32), grid, "nearest")
    np.testing.assert_array_equal(sampled(integers, grid, "nearest"), floats)


def test_an_infinite_element_beyond_the_edge_of_a_grid_counts_nothing(device: dml.Device) -> None:
    x = np.array([[[[np.inf, 2], [3, 4]]]], np.float32)
    grid = np.array([[[[-9, -9], [0.5, 0.5]]]], np.float32)
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="nearest", padding_mode="zeros")
    np.testing.assert_array_equal(run(device, node, {"x": x, "grid": grid}, opset=20)[0].reshape(-1), [0, 4])


def test_boxes_of_a_detector_are_chosen_in_a_moment(any_device: dml.Device) -> None:
    generator = np.random.default_rng(2)
    corners = generator.random((2, 4000, 2), np.float32)
    boxes = np.concatenate([corners, corners + 0.1 * generator.random((2, 4000, 2), np.float32)], -1)
    scores = generator.random((2, 3, 4000), np.float32).round(2)
    made = model(
        "y = NonMaxSuppression (boxes, scores, most, overlap, least)",
        {"boxes": [2, 4000, 4], "scores": [2, 3, 4000]},
        ["y"],
        {"most": np.array([50]), "overlap": np.array([0.4], np.float32), "least": np.array([0.3], np.float32)},
    )
    (expected,) = models.by_onnx_runtime(made, {"boxes": boxes, "scores": scores})
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
