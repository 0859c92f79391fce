"""ROI_POOLING, ROI_ALIGN and ROI_ALIGN_GRAD: examples by hand, what the pages leave open, finite differences."""

from __future__ import annotations

import dataclasses
import gc
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.samples import Sample
from dmlvk.conformance.sampling import check_sample
from dmlvk.kernels.target import CPU
from dmlvk.kernels.windows import region_alignment, region_gradient
from tests.targets import all_compute_as_gpus


def _desc(
    source: tuple[int, ...], rois: int, bins: tuple[int, int], data_type: dml.DataType = dml.FLOAT32, **more: Any
) -> dml.RoiPooling:
    members: dict[str, Any] = {
        "input_tensor": dml.TensorDesc(data_type, source),
        "roi_tensor": dml.TensorDesc(data_type, (1, 1, rois, 5)),
        "output_tensor": dml.TensorDesc(data_type, (rois, source[1], *bins)),
        "spatial_scale": 1.0,
        "pooled_size": dml.Size2D(height=bins[0], width=bins[1]),
    }
    return dml.RoiPooling(**{**members, **more})


@pytest.mark.parametrize("index", [0, 32767, 32768, 70000, 79999])
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16])
def test_bins_of_several_launches(index: int, data_type: dml.DataType, benches: list[Workbench]) -> None:
    x = np.full((1, 1, 200, 400), np.nan, data_type.numpy_dtype)
    x.flat[index] = -3.0
    rois = np.array([[0, 0, 0, 399, 199], [0, 0, 0, 0, 0]], data_type.numpy_dtype)[None, None]
    desc = _desc(x.shape, 2, (1, 1), data_type)
    check_sample(benches, Sample("large", desc, {"InputTensor": x, "ROITensor": rois}))


Array = npt.NDArray[Any]

AVERAGE, MAX = dml.ReduceFunction.AVERAGE, dml.ReduceFunction.MAX

NEAREST, LINEAR = dml.InterpolationMode.NEAREST_NEIGHBOR, dml.InterpolationMode.LINEAR

UINT_MAX = 2**32 - 1


def _alignment_desc(image: Array, regions: Array, pooled: tuple[int, int], **more: Any) -> dml.RoiAlign1:
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


@pytest.mark.parametrize("function", [AVERAGE, MAX])
def test_samples_of_several_launches(
    function: dml.ReduceFunction, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with states of a few outputs at a time; one launch gives the same bits."""
    random = np.random.default_rng(5)
    image = random.standard_normal((1, 2, 150, 230)).astype(np.float32)
    regions = np.array([[0, 0, 230, 150], [-20, -30, 300, 200], [100, 20, 101, 21]], np.float32)
    desc = _alignment_desc(image, regions, (1, 1), reduction_function=function, maximum_samples_per_output=UINT_MAX)
    inputs = _inputs(image, regions)
    whole = benches[0].device.run(desc, inputs)["OutputTensor"]
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    monkeypatch.setattr(region_alignment, "_MOST_STATE_BYTES", 100)
    check_sample(benches, Sample("several launches", desc, inputs))
    again = dataclasses.replace(desc, maximum_samples_per_output=UINT_MAX - 1)
    assert len(region_alignment.lower_alignment(again, CPU).steps) > 4
    assert benches[0].device.run(again, inputs)["OutputTensor"].tobytes() == whole.tobytes()


@dataclasses.dataclass(frozen=True)
class Way:
    """How regions are resized: the attributes that the operators have in common."""

    function: dml.ReduceFunction = AVERAGE
    mode: dml.InterpolationMode = LINEAR
    samples: tuple[int, int] = (1, 1)
    scales: tuple[float, float] = (1.0, 1.0)
    offsets: tuple[float, float] = (0.5, -0.5)
    reaches_corners: bool = False

    @property
    def members(self) -> dict[str, Any]:
        return {
            "reduction_function": self.function,
            "interpolation_mode": self.mode,
            "spatial_scale_x": self.scales[0],
            "spatial_scale_y": self.scales[1],
            "input_pixel_offset": self.offsets[0],
            "output_pixel_offset": self.offsets[1],
            "minimum_samples_per_output": self.samples[0],
            "maximum_samples_per_output": self.samples[1],
            "align_regions_to_corners": self.reaches_corners,
        }


def _tensor(array: Array) -> dml.TensorDesc:
    return dml.TensorDesc(dml.FLOAT32, array.shape)


def _gradient_desc(image: Array, gradient: Array, regions: Array, way: Way, **more: Any) -> dml.RoiAlignGrad:
    members: dict[str, Any] = {
        "input_tensor": _tensor(image),
        "input_gradient_tensor": _tensor(gradient),
        "roi_tensor": _tensor(regions),
        "batch_indices_tensor": dml.TensorDesc(dml.UINT32, regions.shape[:1]),
        "output_gradient_tensor": _tensor(image),
        "output_roi_gradient_tensor": _tensor(regions),
        **way.members,
    }
    return dml.RoiAlignGrad(**{**members, **more})


def _gradient_inputs(image: Array, gradient: Array, regions: Array) -> dict[str, Array]:
    batches = np.zeros(len(regions), np.uint32)
    return {"InputTensor": image, "InputGradientTensor": gradient, "ROITensor": regions, "BatchIndicesTensor": batches}


_OVERLAPPING = np.array([[0.3, 0.2, 6.1, 4.4], [-2, -1, 3, 9], [5, 4, 1, 1], [2.2, 2.2, 2.2, 2.2]], np.float32)


def _interpolated(image: Array, y: float, x: float) -> Any:
    """LINEAR, with edges repeated, in float64."""
    y, x = (float(np.clip(position, 0, extent - 1)) for position, extent in ((y, image.shape[1]), (x, image.shape[2])))
    top, left = int(y), int(x)
    bottom, right = min(top + 1, image.shape[1] - 1), min(left + 1, image.shape[2] - 1)
    upper = image[:, top, left] * (1 - (x - left)) + image[:, top, right] * (x - left)
    lower = image[:, bottom, left] * (1 - (x - left)) + image[:, bottom, right] * (x - left)
    return upper * (1 - (y - top)) + lower * (y - top)


def _loss(image: Array, gradient: Array, region: Array, way: Way) -> float:
    """The sum of gradient * forward of one region all of whose samples count, straight from the page's text."""
    height, width = gradient.shape[1:]
    each = way.samples[0]
    scale_x, scale_y = way.scales
    corners = int(way.reaches_corners)
    step_x = (region[2] - region[0]) * scale_x / (width * each - corners)
    step_y = (region[3] - region[1]) * scale_y / (height * each - corners)
    total = 0.0
    for row, column in np.ndindex(height, width):
        found = []
        for y, x in itertools.product(range(row * each, (row + 1) * each), range(column * each, (column + 1) * each)):
            position_y = (y - way.offsets[1]) * step_y + region[1] * scale_y - way.offsets[0]
            position_x = (x - way.offsets[1]) * step_x + region[0] * scale_x - way.offsets[0]
            found.append(_interpolated(image, position_y, position_x))
        reduced = np.mean(found, axis=0) if way.function == AVERAGE else np.max(found, axis=0)
        total += float((reduced * gradient[:, row, column]).sum())
    return total


@pytest.mark.parametrize(
    "way",
    [
        Way(samples=(2, 2), scales=(0.5, 2.0)),
        Way(MAX, samples=(3, 3)),
        Way(samples=(1, 1), offsets=(0.0, 0.0), reaches_corners=True),
    ],
)
def test_gradients_of_regions_are_slopes(way: Way, benches: list[Workbench]) -> None:
    """Beside central differences of the forward operator in float64, where no sample lies on an element."""
    random = np.random.default_rng(11)
    image = random.standard_normal((1, 2, 8, 9)).astype(np.float32)
    gradient = random.standard_normal((2, 2, 2, 3)).astype(np.float32)
    scales = np.array([*way.scales, *way.scales], np.float32)
    regions = np.array([[1.13, 0.71, 6.37, 5.59], [5.21, 4.83, 2.17, 3.37]], np.float32) / scales
    slopes = np.zeros((2, 4))
    for region, member in np.ndindex(2, 4):
        sides = []
        for step in (-1e-5, 1e-5):
            moved = regions[region].astype(np.float64)
            moved[member] += step
            sides.append(_loss(image[0].astype(np.float64), gradient[region].astype(np.float64), moved, way))
        slopes[region, member] = (sides[1] - sides[0]) / 2e-5
    desc = _gradient_desc(image, gradient, regions, way, output_gradient_tensor=None)
    for bench in benches:
        found = bench.device.run(desc, _gradient_inputs(image, gradient, regions))["OutputROIGradientTensor"]
        np.testing.assert_allclose(found, slopes, rtol=2e-4, atol=2e-4)


@pytest.mark.every_driver
@pytest.mark.parametrize(("function", "turns"), [(AVERAGE, 10), (MAX, 30)])
def test_sums_of_several_launches(
    function: dml.ReduceFunction, turns: int, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of regions, and of rows and columns of a region's outputs, a work group's elements at a time: equal bits."""
    random = np.random.default_rng(13)
    image = random.standard_normal((1, 5, 13, 10)).astype(np.float32)
    gradient = random.standard_normal((4, 5, 2, 12)).astype(np.float32)
    desc = _gradient_desc(
        image, gradient, _OVERLAPPING, Way(function, samples=(1, 100)), output_roi_gradient_tensor=None
    )
    inputs = _gradient_inputs(image, gradient, _OVERLAPPING)
    whole = [bench.device.run(desc, inputs)["OutputGradientTensor"].tobytes() for bench in benches]
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    monkeypatch.setattr(region_gradient, "_ITERATIONS_OF_LAUNCH", turns)
    monkeypatch.setattr(region_gradient, "_MOST_SCRATCH_BYTES", 1000)
    check_sample(benches[:1], Sample("several launches", desc, inputs))
    again = _gradient_desc(
        image, gradient, _OVERLAPPING, Way(function, samples=(1, 101)), output_roi_gradient_tensor=None
    )
    assert len(region_gradient.lower_gradient(again, CPU).steps) > 15
    found = [bench.device.run(again, inputs)["OutputGradientTensor"].tobytes() for bench in benches]
    assert len(set(whole + found)) == 1


@pytest.mark.parametrize("channels", [1, 4, 9, 67, 260])
def test_any_number_of_channels_and_regions(channels: int, benches: list[Workbench]) -> None:
    """Several work groups' channels, several rounds of regions, of several images."""
    random = np.random.default_rng(19)
    image = random.standard_normal((2, channels, 5, 7)).astype(np.float32)
    corners = np.sort(random.uniform(-2, 9, (300 if channels < 60 else 20, 2, 2)).astype(np.float32), axis=1)
    regions = corners.reshape(-1, 4)
    gradient = random.standard_normal((len(regions), channels, 1, 2)).astype(np.float32)
    desc = _gradient_desc(image, gradient, regions, Way(samples=(1, 2)), output_roi_gradient_tensor=None)
    inputs = _gradient_inputs(image, gradient, regions)
    inputs["BatchIndicesTensor"] = random.integers(0, 3, len(regions)).astype(inputs["BatchIndicesTensor"].dtype)
    check_sample(benches, Sample("channels", desc, inputs))


@pytest.mark.parametrize(("count", "pooled"), [(16_000, (1, 1)), (1, (40_000, 1)), (1, (1, 70_000))])
@pytest.mark.parametrize("function", [AVERAGE, MAX])
def test_many_gradients_of_one_element(
    function: dml.ReduceFunction,
    count: int,
    pooled: tuple[int, int],
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """llvmpipe counts the turns of all loops together, those that end one, too: a turn too many loses gradients."""
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    image, regions = np.ones((1, 1, 1, 1), np.float32), np.tile(np.array([[0, 0, 1, 1]], np.float32), (count, 1))
    gradient = np.ones((count, 1, *pooled), np.float32)
    desc = _gradient_desc(image, gradient, regions, Way(function), output_roi_gradient_tensor=None)
    for bench in benches:
        found = bench.device.run(desc, _gradient_inputs(image, gradient, regions))["OutputGradientTensor"]
        assert found.item() == gradient.sum()


@pytest.mark.parametrize("function", [AVERAGE, MAX])
def test_slopes_of_several_parts(
    function: dml.ReduceFunction, benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of 32 outputs, a region at a time, and of some samples of each output in each launch."""
    random = np.random.default_rng(17)
    image = random.standard_normal((1, 20, 6, 7)).astype(np.float32)
    gradient = random.standard_normal((4, 20, 2, 3)).astype(np.float32)
    desc = _gradient_desc(image, gradient, _OVERLAPPING, Way(function, samples=(2, 9)), output_gradient_tensor=None)
    inputs = _gradient_inputs(image, gradient, _OVERLAPPING)
    monkeypatch.setattr(region_gradient, "_ITERATIONS_OF_LAUNCH", 32 * 4)
    at_once = [bench.device.run(desc, inputs)["OutputROIGradientTensor"].tobytes() for bench in benches]
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    monkeypatch.setattr(region_gradient, "_MOST_SCRATCH_BYTES", 1000)
    check_sample(benches, Sample("several parts", desc, inputs))
    again = _gradient_desc(image, gradient, _OVERLAPPING, Way(function, samples=(2, 10)), output_gradient_tensor=None)
    assert len(region_gradient.lower_gradient(again, CPU).steps) > 8
    found = [bench.device.run(again, inputs)["OutputROIGradientTensor"].tobytes() for bench in benches]
    assert len(set(at_once + found)) == 1


def _many_regions(count: int) -> dml.RoiAlignGrad:
    """One launch for each region on a CPU device, for each of a few parts of the image."""
    pooled, image = dml.TensorDesc(dml.FLOAT32, (count, 1, 200, 200)), dml.TensorDesc(dml.FLOAT32, (1, 1, 2000, 2000))
    return dml.RoiAlignGrad(
        input_tensor=None,
        input_gradient_tensor=pooled,
        roi_tensor=dml.TensorDesc(dml.FLOAT32, (count, 4)),
        batch_indices_tensor=dml.TensorDesc(dml.UINT32, (count,)),
        output_gradient_tensor=image,
        output_roi_gradient_tensor=None,
        **Way().members,
    )


def test_compiling_many_launches_takes_as_long_for_each_as_compiling_few(any_device: dml.Device) -> None:
    operator = any_device.create_operator(_many_regions(2000))
    collections: list[str] = []
    gc.callbacks.append(lambda phase, info: collections.append(phase))
    try:
        compiled = any_device.compile_operator(operator)
        assert collections.count("start") <= 1, "Python looked at all that was made so far, again and again"
    finally:
        gc.callbacks.pop()
    assert len(compiled.steps) > 1000


def test_more_launches_than_can_be_made_are_refused_before_they_are(any_device: dml.Device) -> None:
    operator = any_device.create_operator(_many_regions(100_000))
    with pytest.raises(
        dml.DeviceLimitError, match=r"100000 regions of 200 x 200 outputs in images \[1, 1, 2000, 2000\]"
    ):
        any_device.compile_operator(operator)
