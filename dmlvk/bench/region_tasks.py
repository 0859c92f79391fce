"""Regions as detectors have them: up to 1000 of an image of 200 x 304, resized to 7 x 7, with 2 x 2 samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dmlvk.bench.libraries import module
from dmlvk.bench.registry import bench_tasks
from dmlvk.bench.task import Array, Task
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS, operator_desc
from dmlvk.operators.members import ReduceFunction
from dmlvk.operators.resampling import InterpolationMode
from dmlvk.tensors import TensorDesc

_POOLED = 7
_SAMPLES = 2
_MOST_REGIONS = 1000
_LEAST_SIDE = 8


def _sizes(data_type: DataType, size: int) -> tuple[tuple[int, int, int, int], int]:
    """The image's sizes, and how many regions."""
    image = (1, 256, 200, 304) if size >= 2**24 else (1, 16, 50, 76)
    bytes_of_region = image[1] * _POOLED * _POOLED * data_type.size_in_bytes
    return image, min(_MOST_REGIONS, max(8, size // bytes_of_region))


def _regions(image: Sequence[int], count: int, data_type: DataType, random: np.random.Generator) -> Array:
    """Within the image, of any size from a few elements to most of it."""
    corners = []
    for extent in (image[3], image[2]):
        sides = np.exp(random.uniform(math.log(_LEAST_SIDE), math.log(0.9 * extent), count))
        first = random.random(count) * (extent - sides)
        corners += [first, first + sides]
    made: Array = np.stack([corners[0], corners[2], corners[1], corners[3]], 1).astype(data_type.numpy_dtype)
    return made


def _torchvision() -> Any:
    found = module("torchvision")
    if found is None:
        raise RuntimeError("torchvision is not installed")
    return found


class _Boxes:
    """Regions with the number of their image before them, as torchvision has them: made once."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def of(self, torch: Any, regions: Any, batches: Any) -> Any:
        key = int(regions.data_ptr())
        if key not in self._made:
            self._made[key] = torch.cat([batches[:, None].to(regions.dtype), regions], 1)
        return self._made[key]


def _attributes(operator_name: str) -> dict[str, Any]:
    values = {
        "ReductionFunction": ReduceFunction.AVERAGE,
        "InterpolationMode": InterpolationMode.LINEAR,
        "SpatialScaleX": 1.0,
        "SpatialScaleY": 1.0,
        "InputPixelOffset": 0.5,
        "OutputPixelOffset": -0.5,
        "OutOfBoundsInputValue": 0.0,
        "MinimumSamplesPerOutput": _SAMPLES,
        "MaximumSamplesPerOutput": _SAMPLES,
        "AlignRegionsToCorners": False,
    }
    names = {field.name for field in OPERATORS[operator_name].fields}
    return {name: value for name, value in values.items() if name in names}


def _task(operator_name: str, data_type: DataType, size: int, tensors: Mapping[str, TensorDesc], in_torch: Any) -> Task:
    image, count = _sizes(data_type, size)
    desc = operator_desc(
        operator_name,
        **tensors,
        ROITensor=TensorDesc(data_type, (count, 4)),
        BatchIndicesTensor=TensorDesc(DataType.UINT32, (count,)),
        **_attributes(operator_name),
    )
    work = sum(t.data_type.bytes_of(t.element_count) for _, t in (*desc.inputs, *desc.outputs) if t is not None)
    words = f"{operator_name} {count} of {image[1]}x{image[2]}x{image[3]} to {_POOLED}x{_POOLED}"
    return Task(
        words, desc, data_type, work, "B/s", in_torch, indices={"BatchIndicesTensor": 1},
        others=lambda random: {"ROITensor": _regions(image, count, data_type, random)},
    )  # fmt: skip


@bench_tasks("ROI_ALIGN", "ROI_ALIGN")
@bench_tasks("ROI_ALIGN1", "ROI_ALIGN1")
def regions(operator_name: str, data_type: DataType, size: int) -> Iterator[Task]:
    image, count = _sizes(data_type, size)
    boxes = _Boxes()

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        images, corners, batches = inputs
        made = boxes.of(torch, corners, batches)
        return _torchvision().ops.roi_align(images, made, (_POOLED, _POOLED), 1.0, _SAMPLES, True)

    tensors = {
        "InputTensor": TensorDesc(data_type, image),
        "OutputTensor": TensorDesc(data_type, (count, image[1], _POOLED, _POOLED)),
    }
    yield _task(operator_name, data_type, size, tensors, in_torch)


@bench_tasks("ROI_ALIGN_GRAD")
def region_gradients(data_type: DataType, size: int) -> Iterator[Task]:
    """Of the images, of averages."""
    image, count = _sizes(data_type, size)
    boxes = _Boxes()

    def in_torch(torch: Any, inputs: Sequence[Any]) -> Any:
        gradient, corners, batches = inputs
        made = boxes.of(torch, corners, batches)
        _torchvision()
        backward = torch.ops.torchvision._roi_align_backward
        return backward(gradient, made, 1.0, _POOLED, _POOLED, *image, _SAMPLES, True)

    tensors = {
        "InputGradientTensor": TensorDesc(data_type, (count, image[1], _POOLED, _POOLED)),
        "OutputGradientTensor": TensorDesc(data_type, image),
    }
    yield _task("ROI_ALIGN_GRAD", data_type, size, tensors, in_torch)
