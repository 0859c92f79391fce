"""Samples of operators that resample."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS
from dmlvk.operators.members import AxisDirection, Size2D
from dmlvk.operators.resampling import InterpolationMode

Array = npt.NDArray[Any]

_MODES = (InterpolationMode.LINEAR, InterpolationMode.NEAREST_NEIGHBOR)


@dataclasses.dataclass(frozen=True)
class _Stretch:
    """A geometry; offsets are those of pixels' middles unless given."""

    name: str
    sizes: tuple[int, ...]
    output: tuple[int, ...]
    scales: tuple[float, ...]
    input_offsets: tuple[float, ...] | None = None
    output_offsets: tuple[float, ...] | None = None


_STRETCHES = (
    _Stretch("doubled", (1, 3, 5, 6), (1, 3, 10, 12), (1, 1, 2, 2)),
    _Stretch("by other numbers", (2, 2, 5, 7), (2, 2, 7, 5), (1, 1, 1.4, 0.7)),
    _Stretch("all axes, cropped and clamped", (2, 3, 4, 5), (5, 3, 3, 9), (2.5, 0.8, 1.0, 1.3)),
    _Stretch("corners", (1, 2, 4, 6), (1, 2, 9, 4), (1, 1, 8 / 3, 3 / 5), (0, 0, 0, 0), (0, 0, 0, 0)),
    _Stretch("uneven offsets", (1, 2, 6, 4), (1, 2, 9, 8), (1, 1, 1.5, 2), (1, 1, 0.25, 1), (-0.5, -0.5, 0.125, -0.5)),
    _Stretch("shrunk", (1, 2, 13, 17), (1, 2, 4, 3), (1, 1, 0.3, 0.2)),
)


def _values(data_type: DataType, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    dtype = data_type.numpy_dtype
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
    values = (random.standard_normal(sizes) * 8).astype(dtype)
    limits_f = np.finfo(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, limits_f.smallest_subnormal, limits_f.tiny, limits_f.max])
    is_special = random.random(sizes) < 0.06
    values[is_special] = random.choice(special.astype(dtype), sizes)[is_special]
    return values


def _resample_sampler(name: str, *chosen: int) -> None:
    @sampler(name)
    def samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
        data_type = types["input_tensor"]
        members = {field.attribute for field in OPERATORS[name].fields}
        is_thorough = data_type is DataType.FLOAT32
        for number in chosen if is_thorough else chosen[-2:]:
            stretch = _STRETCHES[number]
            for mode in _MODES if is_thorough else (_MODES[number % 2],):
                count = len(stretch.sizes)
                given: dict[str, Any] = {
                    "interpolation_mode": mode,
                    "scales": stretch.scales,
                    "input_pixel_offsets": stretch.input_offsets or (0.5,) * count,
                    "output_pixel_offsets": stretch.output_offsets or (-0.5,) * count,
                    "rounding_direction": AxisDirection(number % 2),
                    "antialiased": number in (2, 5),
                }
                chosen_members = {member: value for member, value in given.items() if member in members}
                inputs = {"input_tensor": _values(data_type, stretch.sizes, random)}
                words = f"{stretch.name}, {mode.name.lower()}"
                yield sample(words, name, types, inputs, output_tensor=stretch.output, **chosen_members)


_resample_sampler("RESAMPLE", 2, 1)
_resample_sampler("RESAMPLE1", 3)
_resample_sampler("RESAMPLE2", 1, 4, 0)
_resample_sampler("RESAMPLE3", 2, 5, 4)


def _gradient_sampler(name: str, *chosen: int) -> None:
    @sampler(name)
    def samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
        data_type = types["input_gradient_tensor"]
        is_thorough = data_type is DataType.FLOAT32
        for number in chosen if is_thorough else chosen[-2:]:
            stretch = _STRETCHES[number]
            count = len(stretch.sizes)
            offsets = {
                "input_pixel_offsets": stretch.input_offsets or (0.5,) * count,
                "output_pixel_offsets": stretch.output_offsets or (-0.5,) * count,
            }
            more = {"rounding_direction": AxisDirection(number % 2)} if name == "RESAMPLE_GRAD1" else {}
            for mode in _MODES if is_thorough else (_MODES[number % 2],):
                members = {"output_gradient_tensor": stretch.sizes, "interpolation_mode": mode, **offsets, **more}
                inputs = {"input_gradient_tensor": _values(data_type, stretch.output, random)}
                words = f"{stretch.name}, {mode.name.lower()}"
                yield sample(words, name, types, inputs, scales=stretch.scales, **members)


_gradient_sampler("RESAMPLE_GRAD", 3, 2)
_gradient_sampler("RESAMPLE_GRAD1", 1, 4, 0, 5)


@sampler("UPSAMPLE_2D")
def upsample_2d(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Four and five dimensions, by equal and by different factors."""
    data_type = types["input_tensor"]
    for sizes, height, width in (((1, 2, 3, 4, 5), 1, 3), ((1, 8, 24, 25), 2, 2)):
        for mode in _MODES if data_type is DataType.FLOAT32 else (_MODES[width % 2],):
            members = {"scale_size": Size2D(width=width, height=height), "interpolation_mode": mode}
            words = f"{sizes} by {height} and {width}, {mode.name.lower()}"
            yield sample(words, "UPSAMPLE_2D", types, {"input_tensor": _values(data_type, sizes, random)}, **members)
