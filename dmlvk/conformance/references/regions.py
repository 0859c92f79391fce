"""References of operators that take regions out of images: by fractions of whole numbers, and NumPy's maximum."""

from __future__ import annotations

import fractions
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]

_SMALLEST_NORMAL = np.finfo(np.float32).tiny
_FARTHEST = 2**30


def _normal(value: Any) -> np.float32:
    single = np.float32(value)
    return single if not abs(single) < _SMALLEST_NORMAL else np.float32(0)


def _scaled(value: Any, scale: np.float32) -> int:
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = float(_normal(value) * scale)
    if math.isnan(scaled):
        return 0
    scaled = min(max(scaled, -float(_FARTHEST)), float(_FARTHEST))
    return int(math.copysign(math.floor(fractions.Fraction(abs(scaled)) + fractions.Fraction(1, 2)), scaled))


def _bins(first: int, last: int, count: int, extent: int) -> list[slice]:
    size = max(last - first, 0) + 1
    found = []
    for i in range(count):
        start = first + math.floor(fractions.Fraction(i * size, count))
        end = first + math.ceil(fractions.Fraction((i + 1) * size, count))
        found.append(slice(min(max(start, 0), extent), min(max(end, 0), extent)))
    return found


def _largest(elements: Array) -> Any:
    """The largest number, +0 above -0."""
    numbers = elements[~np.isnan(elements)]
    if not elements.size:
        return 0.0
    if not numbers.size:
        return np.nan
    largest = numbers.max()
    return largest if largest != 0 else (-0.0 if np.signbit(numbers[numbers == 0]).all() else 0.0)


@reference("ROI_POOLING")
def roi_pooling(desc: dml.RoiPooling, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    source, regions = inputs["InputTensor"], inputs["ROITensor"][0, 0]
    result = np.zeros(desc.output_tensor.sizes, source.dtype)
    scale = _normal(desc.spatial_scale)
    for number, (batch, *corners) in enumerate(regions):
        if not -1 < batch < source.shape[0]:
            continue
        left, top, right, bottom = (_scaled(corner, scale) for corner in corners)
        rows = _bins(top, bottom, desc.pooled_size.height, source.shape[2])
        columns = _bins(left, right, desc.pooled_size.width, source.shape[3])
        for y, row in enumerate(rows):
            for x, column in enumerate(columns):
                for channel in range(source.shape[1]):
                    result[number, channel, y, x] = _largest(source[int(batch), channel, row, column])
    return {"OutputTensor": result}
