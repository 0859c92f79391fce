"""The operators that take regions of interest out of images: ROI_POOLING."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from dmlvk.operators.declaration import Declaration, OperatorDesc, Support
from dmlvk.operators.members import Size2D, float_attribute, size_attribute, tensor_input, tensor_output
from dmlvk.operators.shapes import Draft, Sizes, check_sizes, refuse
from dmlvk.operators.type_groups import EXACT, FLOATS
from dmlvk.tensors import TensorDesc

_MOST_BINS = 65535
_HIGHEST_EXTENT = 2**30
_ROI_MEMBERS = 5
_SMALLEST_NORMAL = 2.0**-126


def pooling_scale(desc: RoiPooling) -> float:
    """SpatialScale, of which a denormal counts as 0."""
    return float(desc.spatial_scale) if abs(desc.spatial_scale) >= _SMALLEST_NORMAL else 0.0


def _pooled_sizes(desc: RoiPooling | Draft) -> Mapping[str, Sizes]:
    """Checks regions and attributes.

    Raises:
        InvalidArgumentError: when the regions have other sizes, or an attribute is out of its range.
    """
    sizes, regions = desc.input_tensor.sizes, desc.roi_tensor.sizes
    check_sizes(desc, "roi_tensor", (1, 1, regions[2], _ROI_MEMBERS), "rows of BatchID, x1, y1, x2, y2")
    if not math.isfinite(desc.spatial_scale):
        refuse(desc, "spatial_scale", f"must be a finite number; got {desc.spatial_scale!r}")
    height, width = desc.pooled_size.height, desc.pooled_size.width
    for name, size in (("height", height), ("width", width)):
        if not 1 <= size <= _MOST_BINS:
            refuse(desc, f"pooled_size.{name}", f"must be from 1 to {_MOST_BINS}; got {size}")
    if any(size > _HIGHEST_EXTENT for size in sizes[2:]):
        refuse(desc, "input_tensor.sizes", f"must have a height and a width of at most 2^30; got {list(sizes)}")
    return {"output_tensor": (regions[2], sizes[1], height, width)}


class RoiPooling(OperatorDesc):
    """The largest element of each bin of each region of interest (DML_ROI_POOLING_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the images, {N, C, H, W}")
    roi_tensor: TensorDesc = tensor_input("the regions, {1, 1, R, 5}: rows of BatchID, x1, y1, x2, y2, all inclusive")
    output_tensor: TensorDesc = tensor_output("the pooled regions, {R, C, PooledSize.Height, PooledSize.Width}")
    spatial_scale: float = float_attribute("by what coordinates are multiplied")
    pooled_size: Size2D = size_attribute("bins of each region")
    declaration: ClassVar = Declaration(
        "regions",
        "max(Input[BatchID, c, start ... end - 1]), start = floor(i * n / PooledSize) + first, "
        "end = ceil((i + 1) * n / PooledSize) + first, n = last - first + 1",
        decisions=(
            "first and last are ROI * SpatialScale, rounded to FLOAT32 and then to the nearest integer, halves away "
            "from 0; beyond 2^30 they are 2^30, and NaN is 0. FLOAT32 denormals count as 0. A last below the first "
            "counts as the first.",
            "Bins are cut off at the input's edges. An empty bin gives 0.",
            "BatchID is rounded toward 0. Where there is no such batch, or it is NaN, all of the region's bins give 0.",
            "Of a number and NaN the number is taken; a bin of nothing but NaN gives NaN. +0 is above -0.",
            "PooledSize is from 1 to 65535 each way.",
        ),
        same_data_type=(("input_tensor", "roi_tensor", "output_tensor"),),
        shapes=_pooled_sizes,
        accuracy=EXACT,
        support=(Support("1_0", (4, 4), FLOATS),),
    )


__all__ = ["RoiPooling"]
