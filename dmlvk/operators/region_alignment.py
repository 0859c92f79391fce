"""The operators that resize regions of interest: ROI_ALIGN and ROI_ALIGN1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from dmlvk.datatypes import DataType
from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import (
    ReduceFunction,
    boolean_attribute,
    enum_attribute,
    float_attribute,
    tensor_input,
    tensor_output,
    unsigned_attribute,
)
from dmlvk.operators.resampling import InterpolationMode
from dmlvk.operators.shapes import Draft, Sizes, check_sizes, refuse
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

if TYPE_CHECKING:
    from dmlvk.operators.region_gradient import RoiAlignGrad

__all__ = ["RoiAlign", "RoiAlign1"]

MOST_SAMPLES_OF_REGION = 2**24  # Along an axis: so many numbers, and no more, are FLOAT32 numbers each

_MOST_MINIMUM = 32768
_ROI_MEMBERS = 4
_SMALLEST_NORMAL = 2.0**-126
_REDUCTIONS = (ReduceFunction.AVERAGE, ReduceFunction.MAX)

_Alignment: TypeAlias = "RoiAlign | RoiAlign1 | RoiAlignGrad"


def without_denormal(value: float) -> float:
    """An attribute, of which a denormal counts as 0."""
    return float(value) if not abs(value) < _SMALLEST_NORMAL else 0.0


def fewest_samples(desc: _Alignment) -> int:
    """The fewest samples that an output has along each axis."""
    return max(int(desc.minimum_samples_per_output), 1)


def most_samples(desc: _Alignment, outputs: int) -> int:
    """The most samples that each of so many outputs along an axis has."""
    return min(int(desc.maximum_samples_per_output), MOST_SAMPLES_OF_REGION // outputs)


def region_count(desc: _Alignment | Draft) -> int:
    """How many regions there are, whose tensors are checked.

    Raises:
        InvalidArgumentError: when the regions or their batch indices have other sizes than they must.
    """
    regions, indices = desc.roi_tensor.sizes, desc.batch_indices_tensor.sizes
    count = int(regions[-2])
    leading = "rows of x1, y1, x2, y2, perhaps with leading ones"
    check_sizes(desc, "roi_tensor", (*[1] * (len(regions) - 2), count, _ROI_MEMBERS), leading)
    per_region = "one for each region, perhaps with leading ones"
    check_sizes(desc, "batch_indices_tensor", (*[1] * (len(indices) - 1), count), per_region)
    return count


def check_sampling(
    desc: _Alignment | Draft, image: Sizes, image_member: str, pooled: Sizes, pooled_member: str
) -> None:
    """Checks the attributes, and the heights and widths that they have to do with.

    Args:
        desc: the description, or a draft of it.
        image: sizes of what regions are taken out of.
        pooled: sizes of what regions become.

    Raises:
        InvalidArgumentError: when one is out of its range.
    """
    if desc.reduction_function not in _REDUCTIONS:
        refuse(desc, "reduction_function", f"must be AVERAGE or MAX; got {desc.reduction_function.name}")
    for member in ("spatial_scale_x", "spatial_scale_y", "input_pixel_offset", "output_pixel_offset"):
        value = getattr(desc, member, None)
        if value is not None and not math.isfinite(value):
            refuse(desc, member, f"must be a finite number; got {value!r}")
    fewest, most = desc.minimum_samples_per_output, desc.maximum_samples_per_output
    if fewest > _MOST_MINIMUM:
        refuse(desc, "minimum_samples_per_output", f"must be at most {_MOST_MINIMUM}; got {fewest}")
    if most < max(fewest, 1):
        rule = f"must be at least 1 and MinimumSamplesPerOutput {fewest}; got {most}"
        refuse(desc, "maximum_samples_per_output", rule)
    for member, sizes in ((image_member, image), (pooled_member, pooled)):
        if max(sizes[2:]) > MOST_SAMPLES_OF_REGION:
            rule = f"must have a height and a width of at most 2^24; got {list(sizes)}"
            refuse(desc, f"{member}.sizes", rule)
    for size in pooled[2:]:
        if size * max(fewest, 1) > MOST_SAMPLES_OF_REGION:
            rule = f"times {size} outputs along an axis must be at most 2^24; got {fewest}"
            refuse(desc, "minimum_samples_per_output", rule)


def _aligned_sizes(desc: RoiAlign | RoiAlign1 | Draft) -> Mapping[str, Sizes]:
    """Checks regions and attributes; the output's height and width are free.

    Raises:
        InvalidArgumentError: when a tensor has other sizes than it must, or an attribute is out of its range.
    """
    image, count, output = tuple(desc.input_tensor.sizes), region_count(desc), desc.output_tensor
    if output is None or output.dimension_count != len(image):
        return {}
    check_sampling(desc, image, "input_tensor", tuple(output.sizes), "output_tensor")
    return {"output_tensor": (count, image[1], *output.sizes[2:])}


POSITIONS = (
    "All steps to a sample's place are rounded to FLOAT32, one by one: start = first corner * SpatialScale, end = "
    "second corner * SpatialScale, size = end - start, step = size / (OutputSize * samples), place = (k - "
    "OutputPixelOffset) * step + start - InputPixelOffset. FLOAT32 denormals count as zero. (The page divides the "
    "sizes of x along y, too, and has one sample too many in its loop: both are slips.)"
)
SAMPLES = (
    "An output has |size| / OutputSize samples along an axis, rounded up, but at least MinimumSamplesPerOutput (and "
    "1) and at most MaximumSamplesPerOutput and 2^24 / OutputSize. So an inverted region has the samples of the same "
    "region the right way round, in reverse. MinimumSamplesPerOutput is at most 32768."
)
EDGES = (
    "A sample up to one element before the first one, or up to one behind the last one (a place from -1 to the "
    "input's size), takes the value at the edge; farther ones count as OutOfBoundsInputValue: as in Detectron2, "
    "torchvision and ONNX. So do all samples of a region whose corners or size are not finite, or whose batch there "
    "is not."
)
CORNERS = (
    "AlignRegionsToCorners divides by OutputSize * samples - 1, so that the first sample lies at the region's start "
    "and the last one at its end where OutputPixelOffset is 0. A single sample lies in the middle of the region then."
)
INTERPOLATION = (
    "NEAREST_NEIGHBOR takes the element nearest to the place; halfway between two that of the lower index. LINEAR "
    "averages along x first, then along y, as RESAMPLE does: weights, products and sums rounded to FLOAT32 one by "
    "one, an element of weight 0 left out."
)
_REDUCED = (
    "AVERAGE adds samples row by row in two words, and then those that are OutOfBoundsInputValue; it is rounded once "
    "and does not overflow on the way; a result of 0 is +0. MAX: of a number and NaN the number is the larger one, +0 "
    "is above -0, nothing but NaN gives the canonical quiet NaN. OutOfBoundsInputValue is a FLOAT32 number, also with "
    "FLOAT16 tensors."
)
_ACCURACY = Accuracy(
    "accurate",
    0.51,
    "and, for LINEAR, 2^-22 of the samples' weighted average of magnitudes; NEAREST_NEIGHBOR with MAX exact",
)
_INDICES_32 = (DataType.UINT32,)
_INDICES = (DataType.UINT64, DataType.UINT32)
DIMENSIONS: Mapping[str, tuple[int, int]] = {"roi_tensor": (2, 4), "batch_indices_tensor": (1, 4)}
_LATER = Support("5_0", (4, 4), FLOATS, dimensions_of=DIMENSIONS, batch_indices_tensor=_INDICES)
IMAGES = "the images, {N, C, H, W}"
REGIONS = "the regions, {R, 4}, perhaps with leading ones: rows of x1, y1, x2, y2"
BATCHES = "the number of each region's image, {R}, perhaps with leading ones"
_OUTPUT = "the resized regions, {R, C, height, width}"
FUNCTION = "what becomes of the samples of an output: AVERAGE or MAX"
MODE = "what becomes of a place between elements"
SCALE_X = "by what x1 and x2 are multiplied"
SCALE_Y = "by what y1 and y2 are multiplied"
INPUT_OFFSET = "where an element's middle lies behind its corner: 0.5, or 0"
OUTPUT_OFFSET = "the same of the output, with a minus: -0.5, or 0"
_OUTSIDE = "what a sample outside of the input is"
FEWEST = "the fewest samples of an output along each axis"
MOST = "the most samples of an output along each axis"
REACHES_CORNERS = "whether samples reach to the corners of the region"


class _RegionsToAlign(OperatorDesc):
    input_tensor: TensorDesc = tensor_input(IMAGES)
    roi_tensor: TensorDesc = tensor_input(REGIONS)
    batch_indices_tensor: TensorDesc = tensor_input(BATCHES)
    output_tensor: TensorDesc = tensor_output(_OUTPUT)
    reduction_function: ReduceFunction = enum_attribute(FUNCTION, ReduceFunction)
    interpolation_mode: InterpolationMode = enum_attribute(MODE, InterpolationMode)
    spatial_scale_x: float = float_attribute(SCALE_X)
    spatial_scale_y: float = float_attribute(SCALE_Y)


class RoiAlign(_RegionsToAlign):
    """Regions of interest resized to one size (DML_ROI_ALIGN_OPERATOR_DESC)."""

    out_of_bounds_input_value: float = float_attribute(_OUTSIDE)
    minimum_samples_per_output: int = unsigned_attribute(FEWEST)
    maximum_samples_per_output: int = unsigned_attribute(MOST)
    declaration: ClassVar = Declaration(
        "regions",
        "the average or the largest of Input[BatchIndices[r], c] at (k + 0.5) * step + start - 0.5, "
        "k from output * samples on",
        decisions=(POSITIONS, SAMPLES, EDGES, INTERPOLATION, _REDUCED),
        same_data_type=(("input_tensor", "roi_tensor", "output_tensor"),),
        shapes=_aligned_sizes,
        accuracy=_ACCURACY,
        support=(Support("3_0", (4, 4), FLOATS, dimensions_of=DIMENSIONS, batch_indices_tensor=_INDICES_32), _LATER),
    )


class RoiAlign1(_RegionsToAlign):
    """Regions of interest resized to one size, with offsets (DML_ROI_ALIGN1_OPERATOR_DESC)."""

    input_pixel_offset: float = float_attribute(INPUT_OFFSET)
    output_pixel_offset: float = float_attribute(OUTPUT_OFFSET)
    out_of_bounds_input_value: float = float_attribute(_OUTSIDE)
    minimum_samples_per_output: int = unsigned_attribute(FEWEST)
    maximum_samples_per_output: int = unsigned_attribute(MOST)
    align_regions_to_corners: bool = boolean_attribute(REACHES_CORNERS)
    declaration: ClassVar = RoiAlign.declaration.version(
        formula="the average or the largest of Input[BatchIndices[r], c] at "
        "(k - OutputPixelOffset) * step + start - InputPixelOffset, k from output * samples on",
        decisions=(POSITIONS, SAMPLES, EDGES, CORNERS, INTERPOLATION, _REDUCED),
        support=(Support("4_0", (4, 4), FLOATS, dimensions_of=DIMENSIONS, batch_indices_tensor=_INDICES_32), _LATER),
    )
