"""RoiAlign: ROI_ALIGN1, with regions and batches as ONNX understands them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators.members import ReduceFunction

_LINEAR = 1  # DML_INTERPOLATION_MODE
_LEAST_SIDE = 256
_MOST_SAMPLES = 32768
_MOST_WORK = 2**30  # Samples of all elements together; what takes more is the host's to refuse or to compute

_MOST_IMAGES = 4
"""How many times the image's longer side a region's samples go, whose number follows from its size: a region may claim
any size, and a device that computes for seconds is lost."""

_NO_BATCH = 2**32
_ULPS: Mapping[int, float] = {TensorProto.FLOAT: 2.0**-23, TensorProto.FLOAT16: 2.0**-10}
"""How far neighbouring numbers are from one another, at most, relative to them."""


@translates(
    "RoiAlign", by=["ROI_ALIGN1"], note="mode max: the largest weighted corner of all samples, as ONNX defines it"
)
def roi_align(node: Node) -> None:
    """Averages; and maxima of what each of a sample's four elements has by its weight."""
    tensor = node.tensor(0)
    node.check_element(0, *FLOATS)
    regions, indices = node.tensor(1), node.tensor(2)
    if tensor.rank != 4 or regions.rank != 2 or indices.rank != 1:
        raise NotOnDevice("two spatial axes, rows of regions, and a row of batch indices")
    sizes = node.integer("output_height", 1), node.integer("output_width", 1)
    made = New(tensor.element, (regions.shape[0], tensor.shape[1], *sizes))
    is_half_pixel = node.version >= 16 and node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    ratio, scale = node.integer("sampling_ratio"), node.real("spatial_scale", 1.0)
    if ratio > _MOST_SAMPLES:
        raise NotOnDevice(f"more than {_MOST_SAMPLES} samples along an axis")
    if ratio > 0 and math.prod(made.shape) * ratio * ratio > _MOST_WORK:
        raise NotOnDevice(f"more than {_MOST_WORK} samples")
    if not np.isfinite(scale) or (not is_half_pixel and scale <= 0.0):
        raise NotOnDevice(f"the spatial_scale {scale}")
    indices = indices.viewed(indices.shape, indices.strides, TensorProto.UINT64)
    if not is_half_pixel:
        regions = _of_one_element(node, regions, scale)
    elif ratio <= 0:
        indices = _without_empty(node, regions, indices)
    members = {
        "roi_tensor": regions,
        "batch_indices_tensor": indices,
        "interpolation_mode": _LINEAR,
        "spatial_scale_x": scale,
        "spatial_scale_y": scale,
        "input_pixel_offset": 0.5 if is_half_pixel else 0.0,
        "output_pixel_offset": -0.5,
        "out_of_bounds_input_value": 0.0,
        "minimum_samples_per_output": max(ratio, 1),
        "maximum_samples_per_output": ratio if ratio > 0 else _MOST_IMAGES * max(*tensor.shape[2:], _LEAST_SIDE),
        "align_regions_to_corners": False,
    }

    def aligned(image: Tensor, function: ReduceFunction) -> Tensor:
        return node.apply("ROI_ALIGN1", input_tensor=image, output_tensor=made, reduction_function=function, **members)

    if node.text("mode", "avg") == "avg":
        node.set(aligned(tensor, ReduceFunction.AVERAGE))
        return
    largest: Tensor | None = None
    for part in _corners(node, tensor):
        found = aligned(part, ReduceFunction.MAX)
        largest = found if largest is None else node.apply("ELEMENT_WISE_MAX", a_tensor=largest, b_tensor=found)
    assert largest is not None  # there are four
    node.set(largest)


def _corners(node: Node, tensor: Tensor) -> list[Tensor]:
    """The images with every second element of every second row, and zeros between.

    Of the four elements around a place each lies in another one of these: so what LINEAR makes of one of them is that
    element by its weight. (The maximum of these, not of the samples, is what ONNX's reference implementation has, and
    with it the cases of its suite, and ONNX Runtime.)
    """
    images = []
    for row, column in np.ndindex(2, 2):
        mask = np.zeros((1, 1, *tensor.shape[2:]), np.uint8)
        mask[..., row::2, column::2] = 1
        images.append(node.assembly.constant(mask, TensorProto.UINT8).where(tensor, 0.0))
    return images


def _sizes(node: Node, low: Tensor, high: Tensor, scale: float) -> Tensor:
    """How large regions are in the image."""
    first, last = (node.cast(corner, TensorProto.FLOAT) * scale for corner in (low, high))
    return last - first


def _halves(node: Node, regions: Tensor) -> tuple[Tensor, Tensor]:
    """The first corners and the second ones."""
    half = New(regions.element, (regions.shape[0], 2))
    low, high = node.apply_all("SPLIT", input_tensor=regions, output_tensors=[half, half], axis=1)
    return low, high


def _of_one_element(node: Node, regions: Tensor, scale: float) -> Tensor:
    """The regions, those smaller than an element of the image made as large as one, and by no rounding larger."""
    low, high = _halves(node, regions)
    grown = node.cast(node.cast(low, TensorProto.FLOAT) + 1.0 / scale, regions.element)
    magnitude = node.apply("ELEMENT_WISE_MAX", a_tensor=grown, b_tensor=0.0 - grown)
    less = grown - magnitude * _ULPS[regions.element]
    is_too_large = _sizes(node, low, grown, scale) > 1.0
    is_small = _sizes(node, low, high, scale) < 1.0
    high = is_small.where(is_too_large.where(less, grown), high)
    return node.apply("JOIN", input_tensors=[low, high], axis=1)


def _without_empty(node: Node, regions: Tensor, indices: Tensor) -> Tensor:
    """The batch indices; of a batch that there is not where a region is empty or inverted, and so has no samples.

    ONNX Runtime and torchvision give 0 for such a region, as ROI_ALIGN1 does for one of no batch.
    """
    low, high = _halves(node, regions)
    least = node.apply("REDUCE", function=ReduceFunction.MIN, input_tensor=high > low, axes=[1])
    return least.viewed(indices.shape).where(indices, _NO_BATCH)
