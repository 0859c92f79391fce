"""GridSample of pictures and grids whose sizes are open: two plans, with the bits of plans for those sizes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.targets import MOST_PLANS_OF_GPUS, all_compute_as_gpus, most_plans

Array = npt.NDArray[Any]

_SIZES = ((8, 9, 4, 5), (13, 10, 20, 21), (5, 5, 3, 3), (30, 47, 9, 14))
"""Height and width of a picture and of a grid."""


def _model(sizes: tuple[Any, Any, Any, Any], element: int, **attributes: Any) -> onnx.ModelProto:
    height, width, *places = sizes
    node = helper.make_node("GridSample", ["picture", "grid"], ["y"], **attributes)
    shapes = {"picture": ["batch", 3, height, width], "grid": ["batch", *places, 2]}
    return models.model([node], shapes, ["y"], element=element, opset=20)


def _feed(sizes: tuple[int, int, int, int], dtype: type) -> dict[str, Array]:
    """A picture, and a grid that goes beyond its edges, with its middle, an edge, and places that are no numbers."""
    height, width, *places = sizes
    random = np.random.default_rng(height)
    grid: Array = random.uniform(-1.6, 1.6, (2, *places, 2)).astype(dtype)
    grid[0, 0, :3] = [[0, 0], [-1, 1], [np.nan, np.inf]]
    return {"picture": random.standard_normal((2, 3, height, width)).astype(dtype), "grid": grid}


@pytest.mark.parametrize(
    ("mode", "padding", "corners"),
    [
        ("linear", "zeros", 0),
        ("linear", "border", 1),
        ("linear", "reflection", 0),
        ("nearest", "zeros", 1),
        ("nearest", "border", 0),
        ("nearest", "reflection", 1),
        ("cubic", "zeros", 0),
        ("cubic", "reflection", 1),
    ],
)
def test_pictures_of_every_size_have_the_bits_of_a_plan_for_them_alone(
    any_device: dml.Device, mode: str, padding: str, corners: int
) -> None:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    model = _model(("h", "w", "rows", "columns"), TensorProto.FLOAT, **attributes)
    session = ort.InferenceSession(model, device=any_device, strict=True)
    theirs = models.onnx_runtime(model)
    for sizes in _SIZES:
        feed = _feed(sizes, np.float32)
        (made,) = session.run(None, feed)
        alone = ort.InferenceSession(_model(sizes, TensorProto.FLOAT, **attributes), device=any_device)
        (planned,) = alone.run(None, feed)
        assert made.tobytes() == planned.tobytes(), f"{sizes} have other bits than planned alone"
        (expected,) = theirs.run(None, feed)
        made, expected = (each.reshape(2, 3, -1)[:, :, 3:] for each in (made, expected))
        # What is nearest to a place in the middle of two is decided by a last bit, which is not ONNX Runtime's.
        differing = np.count_nonzero(~np.isclose(made, expected, rtol=1e-4, atol=1e-4))
        assert differing <= made.size // 100, f"{differing} of {made.size} results of {sizes} are not ONNX Runtime's"
    count = session._program.plan_count  # a grid of as many places as a picture has channels has its own
    assert count <= most_plans(any_device, 2), f"{count} plans for {len(_SIZES)} sizes"


def test_gpus_have_few_plans_however_many_sizes_there_are(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    all_compute_as_gpus(monkeypatch)
    session = ort.InferenceSession(_model(("h", "w", "rows", "columns"), TensorProto.FLOAT), device=device, strict=True)
    random = np.random.default_rng(0)
    for _ in range(24):
        height, width, *places = (int(size) for size in random.integers(3, 60, 4))
        session.run(None, _feed((height, width, places[0], places[1]), np.float32))
    assert session._program.plan_count <= MOST_PLANS_OF_GPUS


def test_pictures_of_halves_likewise(device: dml.Device) -> None:
    model = _model(("h", "w", "rows", "columns"), TensorProto.FLOAT16, mode="linear", padding_mode="border")
    session = ort.InferenceSession(model, device=device, strict=True)
    for sizes in _SIZES:
        feed = _feed(sizes, np.float16)
        alone = _model(sizes, TensorProto.FLOAT16, mode="linear", padding_mode="border")
        (planned,) = ort.InferenceSession(alone, device=device).run(None, feed)
        assert session.run(None, feed)[0].tobytes() == planned.tobytes(), f"{sizes}"
    assert session._program.plan_count <= most_plans(device, 2)
