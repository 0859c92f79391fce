"""Samples of operators that resize regions of interest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS
from dmlvk.operators.members import ReduceFunction
from dmlvk.operators.resampling import InterpolationMode

Array = npt.NDArray[Any]

_UINT_MAX = 2**32 - 1
_REGIONS = (
    (0.0, 0.0, 7.0, 5.0),
    (1.25, 0.75, 5.5, 3.0),
    (-2.5, -1.75, 3.0, 4.5),
    (2.0, 2.0, 2.0, 2.0),
    (6.5, 4.0, 1.0, 0.5),
    (0.1, 0.2, 0.7, 0.9),
    (5.0, 3.0, 30.0, 20.0),
    (40.0, 40.0, 50.0, 60.0),
    (-60000.0, -3000.0, 60000.0, 1000.0),
    (np.nan, 1.0, 4.0, 3.0),
    (1.0, -np.inf, 4.0, 3.0),
    (1.0, 1.0, 6.0, 4.0),
    (1.0, 1.0, 6.0, 4.0),
)
"""Inside of 5 rows of 7, over edges, empty, inverted, small, far outside, huge, of no numbers, of no image."""

_BATCHES = (0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, _UINT_MAX)


@dataclasses.dataclass(frozen=True)
class Aligning:
    """What is special about a sample."""

    name: str  # what that is
    function: ReduceFunction  # of the samples of an output
    mode: InterpolationMode  # how a sample is taken
    pooled: tuple[int, int] = (2, 3)  # height and width of the output
    samples: tuple[int, int] = (1, _UINT_MAX)  # fewest and most of an output
    scales: tuple[float, float] = (1.0, 1.0)  # along x and along y
    offsets: tuple[float, float] = (0.5, -0.5)  # of the input and of the output
    reaches_corners: bool = False  # whether the samples do
    outside: float = 0.0  # what is beyond the edges

    @property
    def is_old(self) -> bool:
        """Whether ROI_ALIGN can be told so, too."""
        return self.offsets == (0.5, -0.5) and not self.reaches_corners

    def members(self, operator: str) -> dict[str, Any]:
        names = {field.attribute for field in OPERATORS[operator].fields}
        values = {
            "reduction_function": self.function,
            "interpolation_mode": self.mode,
            "spatial_scale_x": self.scales[0],
            "spatial_scale_y": self.scales[1],
            "input_pixel_offset": self.offsets[0],
            "output_pixel_offset": self.offsets[1],
            "out_of_bounds_input_value": self.outside,
            "minimum_samples_per_output": self.samples[0],
            "maximum_samples_per_output": self.samples[1],
            "align_regions_to_corners": self.reaches_corners,
        }
        return {name: value for name, value in values.items() if name in names}


_NEAREST, _LINEAR = InterpolationMode.NEAREST_NEIGHBOR, InterpolationMode.LINEAR
_AVERAGE, _MAX = ReduceFunction.AVERAGE, ReduceFunction.MAX
ALIGNINGS = (
    Aligning("adaptive averages", _AVERAGE, _LINEAR),
    Aligning("two by two, scaled", _AVERAGE, _LINEAR, (3, 2), (2, 2), (0.5, -0.75), outside=-3.5),
    Aligning("one sample, no offsets", _AVERAGE, _LINEAR, (2, 4), (1, 1), offsets=(0.0, 0.0), outside=np.inf),
    Aligning("corners", _AVERAGE, _LINEAR, (1, 5), (0, 1), offsets=(0.0, 0.0), reaches_corners=True, outside=1e30),
    Aligning("nearest averages", _AVERAGE, _NEAREST, (2, 2), (3, 5), (1.5, 1.25), outside=2.0**-20),
    Aligning("largest", _MAX, _LINEAR, (2, 2), (1, 3), outside=-0.25),
    Aligning("largest of corners", _MAX, _LINEAR, (3, 1), (2, 2), (1.0, 1.0), (0.0, -0.5), True, np.nan),
    Aligning("nearest largest", _MAX, _NEAREST, (2, 3), (1, 4), (0.3, 1.0), outside=-np.inf),
)


def values_of(data_type: DataType, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    """Of every magnitude, and now and then zeros, infinities, NaN and denormals."""
    dtype = data_type.numpy_dtype
    widest = 60 if data_type is DataType.FLOAT32 else 8
    exponents = np.where(random.random(sizes) < 0.2, random.integers(-widest, widest, sizes), 0)
    values = np.ldexp(random.standard_normal(sizes), exponents.astype(np.int32)).astype(dtype)
    few = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max], dtype)
    return np.where(random.random(sizes) < 0.08, random.choice(few, sizes), values)


def regions_of(data_type: DataType, leading: int) -> Array:
    return np.array(_REGIONS, data_type.numpy_dtype).reshape(*[1] * leading, -1, 4)


def batches_of(data_type: DataType, leading: int) -> Array:
    """Their images, with so many leading ones."""
    batches = np.array(_BATCHES, data_type.numpy_dtype).reshape(*[1] * leading, -1)
    if data_type is DataType.UINT64:
        batches[..., -1] = 2**32
    return batches


def _alignings(name: str, types: Types) -> Sequence[Aligning]:
    """All of them once; where only a data type is another, those that have to do with it."""
    found = [aligning for aligning in ALIGNINGS if name == "ROI_ALIGN1" or aligning.is_old]
    if types["batch_indices_tensor"] is DataType.UINT64:
        return found[:1]
    if types["input_tensor"] is DataType.FLOAT16:
        kernels = {(aligning.function, aligning.mode): aligning for aligning in reversed(found)}
        found = list(kernels.values())
    return found if name == "ROI_ALIGN1" else found[:2]


def _aligned(name: str, types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Every mode and function, with regions of every kind."""
    data_type, index_type = types["input_tensor"], types["batch_indices_tensor"]
    for number, aligning in enumerate(_alignings(name, types)):
        values = values_of(data_type, (2, 3, 5, 7), random)
        regions, batches = regions_of(data_type, number % 3), batches_of(index_type, number % 4)
        inputs = {"input_tensor": values, "roi_tensor": regions, "batch_indices_tensor": batches}
        output = (len(_REGIONS), 3, *aligning.pooled)
        yield sample(aligning.name, name, types, inputs, output_tensor=output, **aligning.members(name))


@sampler("ROI_ALIGN")
def roi_align(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    return _aligned("ROI_ALIGN", types, random)


@sampler("ROI_ALIGN1")
def roi_align1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """With offsets of both kinds."""
    return _aligned("ROI_ALIGN1", types, random)


def _gradient_alignings(data_type: DataType) -> Sequence[tuple[Aligning, str]]:
    """Which of them are tried with gradients, and of what: the images, the regions, or both."""
    averages = (Aligning("adaptive averages", _AVERAGE, _LINEAR), "both")
    if data_type is DataType.FLOAT16:
        return averages, (Aligning("nearest largest", _MAX, _NEAREST, (3, 1), (1, 4)), "both")
    corners = (0.0, -0.5)
    return (
        averages,
        (Aligning("largest", _MAX, _LINEAR, (2, 2), (1, 3), (0.5, -0.75)), "both"),
        (Aligning("nearest averages", _AVERAGE, _NEAREST, (2, 2), (3, 5), (1.5, 1.25)), "images"),
        (Aligning("corners", _AVERAGE, _LINEAR, (1, 4), (1, 1), (1.5, 0.75), corners, True), "regions"),
    )


@sampler("ROI_ALIGN_GRAD")
def roi_align_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Of images, of regions, and of both; images are not given where nothing needs them."""
    data_type, index_type = types["input_gradient_tensor"], types["batch_indices_tensor"]
    for number, (aligning, what) in enumerate(_gradient_alignings(data_type)):
        image = (2, 5, 5, 7)
        regions, batches = regions_of(data_type, number % 3), batches_of(index_type, number % 4)
        pooled = (len(_REGIONS), 5, *aligning.pooled)
        needs_image = what != "images" or aligning.function is _MAX
        values = values_of if what == "images" else _plain
        inputs = {
            "input_gradient_tensor": values(data_type, pooled, random),
            "roi_tensor": regions,
            "batch_indices_tensor": batches,
        }
        if needs_image:
            inputs["input_tensor"] = _plain(data_type, image, random)
        members = {
            "output_gradient_tensor": None if what == "regions" else image,
            "output_roi_gradient_tensor": None if what == "images" else regions.shape,
            **aligning.members("ROI_ALIGN_GRAD"),
        }
        yield sample(f"{aligning.name}, {what}", "ROI_ALIGN_GRAD", types, inputs, **members)


def _plain(data_type: DataType, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    """Numbers around 0, one in fifty of them infinite or none."""
    values = random.standard_normal(sizes).astype(data_type.numpy_dtype)
    few = np.array([0.0, np.nan, np.inf, -np.inf], data_type.numpy_dtype)
    return np.where(random.random(values.shape) < 0.02, random.choice(few, values.shape), values)
