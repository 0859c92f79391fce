"""ROI_ALIGN, ROI_ALIGN1: examples by hand, what the pages leave open, and many samples."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples import Sample
from dmlvk.conformance.sampling import check_sample
from dmlvk.kernels.target import CPU
from dmlvk.kernels.windows import region_alignment
from tests.targets import all_compute_as_gpus

Array = npt.NDArray[Any]

AVERAGE, MAX = dml.ReduceFunction.AVERAGE, dml.ReduceFunction.MAX
NEAREST, LINEAR = dml.InterpolationMode.NEAREST_NEIGHBOR, dml.InterpolationMode.LINEAR
UINT_MAX = 2**32 - 1


def _desc(image: Array, regions: Array, pooled: tuple[int, int], **more: Any) -> dml.RoiAlign1:
    data_type = dml.FLOAT16 if image.dtype == np.float16 else dml.FLOAT32
    members: dict[str, Any] = {
        "input_tensor": dml.TensorDesc(data_type, image.shape),
        "roi_tensor": dml.TensorDesc(data_type, regions.shape),
        "batch_indices_tensor": dml.TensorDesc(dml.UINT32, regions.shape[:1]),
        "output_tensor": dml.TensorDesc(data_type, (len(regions), image.shape[1], *pooled)),
        "reduction_function": AVERAGE,
        "interpolation_mode": LINEAR,
        "spatial_scale_x": 1.0,
        "spatial_scale_y": 1.0,
        "input_pixel_offset": 0.5,
        "output_pixel_offset": -0.5,
        "out_of_bounds_input_value": 0.0,
        "minimum_samples_per_output": 1,
        "maximum_samples_per_output": 1,
        "align_regions_to_corners": False,
    }
    return dml.RoiAlign1(**{**members, **more})


def _inputs(image: Array, regions: Array) -> dict[str, Array]:
    return {"InputTensor": image, "ROITensor": regions, "BatchIndicesTensor": np.zeros(len(regions), np.uint32)}


def _run(bench: Workbench, image: Array, regions: Any, pooled: tuple[int, int], **more: Any) -> Array:
    rows = np.array(regions, image.dtype)
    return bench.device.run(_desc(image, rows, pooled, **more), _inputs(image, rows))["OutputTensor"]


def _ramp(height: int, width: int) -> Array:
    """Elements that LINEAR hits exactly: 16 * y + x."""
    return (16.0 * np.arange(height)[:, None] + np.arange(width)).astype(np.float32)[None, None]


def test_places_by_hand(benches: list[Workbench]) -> None:
    """On a ramp, an output is where its sample lies, or the mean of where its samples lie."""
    image = _ramp(8, 8)
    for bench in benches:

        def along_x(region: Any, pooled: int, *, on: Workbench = bench, **more: Any) -> list[float]:
            row: list[float] = _run(on, image, [region], (1, pooled), **more)[0, 0, 0].tolist()
            return row

        offsets: dict[str, Any] = {"input_pixel_offset": 0.0, "output_pixel_offset": 0.0}
        assert along_x([1, 0.5, 5, 0.5], 4) == [1, 2, 3, 4]
        assert along_x([1, 0, 5, 0], 2, **offsets) == [1, 3]
        assert along_x([2.5, 0.5, 2.5, 0.5], 3) == [2, 2, 2], "an empty region is one place"
        assert along_x([5, 0.5, 1, 0.5], 4) == [4, 3, 2, 1], "an inverted region is a mirror image"
        corners = {"align_regions_to_corners": True, **offsets}
        assert along_x([1, 0, 5, 0], 5, **corners) == [1, 2, 3, 4, 5]
        assert along_x([1, 0, 5, 0], 1, **corners) == [3], "one sample lies in the middle"
        assert along_x([-1, 0.5, 1, 0.5], 4, spatial_scale_x=4.0, out_of_bounds_input_value=-9.0) == [-9, -9, 0.5, 2.5]
        edges: dict[str, Any] = {"out_of_bounds_input_value": 100.0, "input_pixel_offset": 0.0}
        assert along_x([-1.5, 0, 8.5, 0], 10, **edges) == [0, 0, 1, 2, 3, 4, 5, 6, 7, 7]
        assert along_x([-2.5, 0, 9.5, 0], 6, **edges) == [100, 0.5, 2.5, 4.5, 6.5, 100]


def test_adaptive_samples(benches: list[Workbench]) -> None:
    """As many as elements, rounded up: four for 3.5 elements of an output, or three if there may be no more."""
    image = np.zeros((1, 1, 1, 16), np.float32)
    image[..., 0] = 1.0
    counts = {"minimum_samples_per_output": 1, "interpolation_mode": NEAREST}
    for bench in benches:
        for most, share in ((UINT_MAX, 1 / 4), (3, 1 / 3)):
            for region in ([0, 0, 7, 1], [7, 0, 0, 1]):
                found = _run(bench, image, [region], (1, 2), maximum_samples_per_output=most, **counts)[0, 0, 0]
                expected = [share, 0] if region[0] == 0 else [0, share]
                assert found.tolist() == np.array(expected, np.float32).tolist()


def test_mirror_images(benches: list[Workbench]) -> None:
    """With steps that are exact, an inverted region has the right one's bits in reverse."""
    image = np.random.default_rng(3).standard_normal((1, 2, 9, 12)).astype(np.float32)
    region = [1.5, 0.75, 9.5, 6.75]
    for bench in benches:
        for function in (AVERAGE, MAX):
            more = {
                "reduction_function": function,
                "interpolation_mode": NEAREST,
                "maximum_samples_per_output": UINT_MAX,
            }
            right = _run(bench, image, [region], (4, 4), **more)
            wrong = _run(bench, image, [[*region[2:], *region[:2]]], (4, 4), **more)
            np.testing.assert_array_equal(wrong, right[..., ::-1, ::-1])


@pytest.mark.parametrize("function", [AVERAGE, MAX])
def test_samples_of_several_launches(
    function: dml.ReduceFunction, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with states of a few outputs at a time; one launch gives the same bits."""
    random = np.random.default_rng(5)
    image = random.standard_normal((1, 2, 150, 230)).astype(np.float32)
    regions = np.array([[0, 0, 230, 150], [-20, -30, 300, 200], [100, 20, 101, 21]], np.float32)
    desc = _desc(image, regions, (1, 1), reduction_function=function, maximum_samples_per_output=UINT_MAX)
    inputs = _inputs(image, regions)
    whole = benches[0].device.run(desc, inputs)["OutputTensor"]
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    monkeypatch.setattr(region_alignment, "_MOST_STATE_BYTES", 100)
    check_sample(benches, Sample("several launches", desc, inputs))
    again = dataclasses.replace(desc, maximum_samples_per_output=UINT_MAX - 1)
    assert len(region_alignment.lower_alignment(again, CPU).steps) > 4
    assert benches[0].device.run(again, inputs)["OutputTensor"].tobytes() == whole.tobytes()


@pytest.mark.parametrize("height", [30_000, 60_000])
def test_rows_of_one_sample(height: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is a loop of its own, and llvmpipe counts what ends a loop among its turns."""
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    image = np.zeros((1, 1, height, 1), np.float32)
    image[0, 0, -1] = height
    for bench in benches:
        for function, expected in ((AVERAGE, 1), (MAX, height)):
            more = {"reduction_function": function, "maximum_samples_per_output": UINT_MAX}
            assert _run(bench, image, [[0, 0, 1, height]], (1, 1), **more).item() == expected


def test_sum_of_large_and_small(benches: list[Workbench]) -> None:
    """What would overflow, or be lost, in one word."""
    image = np.array([[[[3e38, 3e38, 1.0, -3e38, -3e38, 1e-37]]]], np.float32)
    more = {"interpolation_mode": NEAREST, "minimum_samples_per_output": 6, "maximum_samples_per_output": 6}
    for bench in benches:
        assert _run(bench, image, [[0, 0, 6, 1]], (1, 1), **more)[0, 0, 0, 0] == np.float32(1 / 6)
        assert _run(bench, image, [[0, 0, 2, 1]], (1, 1), **more)[0, 0, 0, 0] == np.float32(3e38)


def test_outside_of_float16(benches: list[Workbench]) -> None:
    """A number beyond FLOAT16 counts as the FLOAT32 number that it is, until the average is rounded."""
    image = np.ones((1, 1, 2, 2), np.float16)
    more = {"minimum_samples_per_output": 2, "maximum_samples_per_output": 2, "spatial_scale_y": 4.0}
    for bench in benches:
        for outside, expected in ((120000.0, 60000.0), (400000.0, np.inf), (-2.0, -0.5), (np.nan, np.nan)):
            found = _run(bench, image, [[0, 0, 2, 2]], (1, 1), out_of_bounds_input_value=outside, **more)[0, 0, 0, 0]
            np.testing.assert_equal(found, np.float16(expected))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_averages_of_four_samples_have_the_bits_of_any_average(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, channels: int
) -> None:
    """GPUs make them of several channels at once, where nothing is rare."""
    random = np.random.default_rng(5)
    image = random.standard_normal((1, channels, 20, 30)).astype(np.float32)
    image[random.random(image.shape) < 0.3] = 0.0
    image[0, 0, 3, 3], image[0, -1, 4:6, 4:8], image[0, 0, 12:, :8], image[0, -1, 12:, 20:] = np.inf, 1e-38, 1e-30, 3e38
    image[0, 0, :6, 20:] *= np.float32(1e-25)
    regions = random.uniform(-3, 33, (40, 4))
    regions[:, 2:] = regions[:, :2] + random.uniform(-1, 25, (40, 2))
    regions[:3] = [[np.nan, 0, 5, 5], [0, 0, 14, 14], [2, 2, 9, 16]]
    rows = regions.astype(np.float32)
    for fewest, most in ((2, 2), (1, 3)):
        counts = {"minimum_samples_per_output": fewest, "maximum_samples_per_output": most}
        found = set()
        for as_gpus in (False, True):
            all_compute_as_gpus(monkeypatch, as_gpus=as_gpus)
            outcomes = [_run(bench, image, rows, (7, 7), out_of_bounds_input_value=0.7, **counts) for bench in benches]
            found |= {outcome.tobytes() for outcome in outcomes}
        assert len(found) == 1, counts
