"""The gradients of resized regions of interest: ROI_ALIGN_GRAD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

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
from dmlvk.operators.region_alignment import (
    BATCHES,
    CORNERS,
    DIMENSIONS,
    EDGES,
    FEWEST,
    FUNCTION,
    IMAGES,
    INPUT_OFFSET,
    INTERPOLATION,
    MODE,
    MOST,
    OUTPUT_OFFSET,
    POSITIONS,
    REACHES_CORNERS,
    REGIONS,
    SAMPLES,
    SCALE_X,
    SCALE_Y,
    check_sampling,
    region_count,
)
from dmlvk.operators.resampling import InterpolationMode
from dmlvk.operators.shapes import Draft, Sizes, check_sizes, refuse
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc

__all__ = ["RoiAlignGrad"]


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
