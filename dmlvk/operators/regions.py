"""The operators of regions of interest: ROI_POOLING, ROI_ALIGN, and the gradient of ROI_ALIGN."""

from __future__ import annotations

import math
from typing import TypeAlias

from dmlvk.operators.resampling import InterpolationMode
from dmlvk.operators.words import *

_MOST_BINS = 65535
_HIGHEST_EXTENT = 2**30
_POOLED_ROI_MEMBERS = 5
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
    check_sizes(desc, "roi_tensor", (1, 1, regions[2], _POOLED_ROI_MEMBERS), "rows of BatchID, x1, y1, x2, y2")
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
        support=(Support("1_0", (4, 4), FLOATS),),
    )


MOST_SAMPLES_OF_REGION = 2**24  # Along an axis: so many numbers, and no more, are FLOAT32 numbers each

_MOST_MINIMUM = 32768
_ROI_MEMBERS = 4
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


def _gradient_sizes(desc: RoiAlignGrad | Draft) -> Mapping[str, Sizes]:
    """Checks that the tensors are there that are needed, and their sizes.

    Raises:
        InvalidArgumentError: when one is missing or has other sizes, or an attribute is out of its range.
    """
    source, pooled, output = desc.input_tensor, desc.input_gradient_tensor, desc.output_gradient_tensor
    of_regions = desc.output_roi_gradient_tensor
    if source is None and desc.reduction_function == ReduceFunction.MAX:
        refuse(desc, "input_tensor", "must be there where ReductionFunction is MAX; got None")
    if source is None and of_regions is not None:
        refuse(desc, "input_tensor", "must be there where OutputROIGradientTensor is; got None")
    image = source if source is not None else output
    if image is None or pooled is None:
        return {"output_roi_gradient_tensor": tuple(desc.roi_tensor.sizes)}
    count = region_count(desc)
    sizes = (count, image.sizes[1], *pooled.sizes[2:])
    check_sizes(desc, "input_gradient_tensor", sizes, "those of the regions, resized")
    member = "input_tensor" if source is not None else "output_gradient_tensor"
    check_sampling(desc, tuple(image.sizes), member, sizes, "input_gradient_tensor")
    return {"output_gradient_tensor": tuple(image.sizes), "output_roi_gradient_tensor": tuple(desc.roi_tensor.sizes)}


_GATHERED = (
    "OutputGradient: with AVERAGE an element's weight in an output is the product of two, along y and along x, each "
    "the sum of its samples' weights in two words, divided by the samples along that axis and rounded to FLOAT32, as "
    "is the product, and that times the gradient. Weights of 0 are left out. Sums are made in two words, by rising "
    "region, row by row, and rounded once; they do not overflow on the way."
)
_WINNER = (
    "With MAX all of an output's gradient goes to the sample that was the largest, the first one of several, row by "
    "row; of nothing but NaN to the first one. A sample outside of the input counts as 0 there (the operator has no "
    "OutOfBoundsInputValue), and takes the gradient away where it is larger than all inside."
)
_SLOPES = (
    "OutputROIGradient is the derivative that the page's summary stands for, for any number of samples: a sample's "
    "place moves with the region's start by (1 - u) * SpatialScale and with its end by u * SpatialScale, u = (k - "
    "OutputPixelOffset) / (OutputSize * samples), 1/2 of a single sample that reaches corners. (The page leaves out "
    "SpatialScale and OutputSize, and takes the output's coordinate for k.) It is 0 along an axis where the place is "
    "whole, as the page's floor and ceiling have it, or drawn to the edge, and with NEAREST_NEIGHBOR. Steps are "
    "rounded to FLOAT32 one by one, sums of 32 outputs (more of regions with over a million) are made in two words, "
    "and then their sum."
)
_SIZES = "OutputGradient has the sizes of ROI_ALIGN1's Input; at least one of the outputs must be there."


class RoiAlignGrad(OperatorDesc):
    """Gradients of images and regions of which ROI_ALIGN1 was made (DML_ROI_ALIGN_GRAD_OPERATOR_DESC)."""

    input_tensor: TensorDesc | None = tensor_input(IMAGES, default=None)
    input_gradient_tensor: TensorDesc = tensor_input("gradients of the resized regions, {R, C, height, width}")
    roi_tensor: TensorDesc = tensor_input(REGIONS)
    batch_indices_tensor: TensorDesc = tensor_input(BATCHES)
    output_gradient_tensor: TensorDesc | None = tensor_output("gradients of the images", default=None)
    output_roi_gradient_tensor: TensorDesc | None = tensor_output("gradients of the regions", default=None)
    reduction_function: ReduceFunction = enum_attribute(FUNCTION, ReduceFunction)
    interpolation_mode: InterpolationMode = enum_attribute(MODE, InterpolationMode)
    spatial_scale_x: float = float_attribute(SCALE_X)
    spatial_scale_y: float = float_attribute(SCALE_Y)
    input_pixel_offset: float = float_attribute(INPUT_OFFSET)
    output_pixel_offset: float = float_attribute(OUTPUT_OFFSET)
    minimum_samples_per_output: int = unsigned_attribute(FEWEST)
    maximum_samples_per_output: int = unsigned_attribute(MOST)
    align_regions_to_corners: bool = boolean_attribute(REACHES_CORNERS)
    declaration: ClassVar = Declaration(
        "regions",
        "OutputGradient: sum of InputGradient * weight over the outputs that an element has a weight in; "
        "OutputROIGradient: sum of InputGradient * change of the output with x1, y1, x2, y2",
        decisions=(_SIZES, POSITIONS, SAMPLES, EDGES, CORNERS, INTERPOLATION, _GATHERED, _WINNER, _SLOPES),
        same_data_type=(
            (
                "input_tensor",
                "input_gradient_tensor",
                "roi_tensor",
                "output_gradient_tensor",
                "output_roi_gradient_tensor",
            ),
        ),
        shapes=_gradient_sizes,
        accuracy=Accuracy("accurate", 0.51, "and 2^-20 of the sum of magnitudes"),
        support=(
            Support(
                "4_1",
                (4, 4),
                FLOATS,
                dimensions_of={**DIMENSIONS, "output_roi_gradient_tensor": (2, 4)},
                batch_indices_tensor=(DataType.UINT32,),
            ),
        ),
    )
