"""The operators that take elements from between those of their input: RESAMPLE and UPSAMPLE_2D."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import TypeAlias

from dmlvk.operators.words import *

_HIGHEST_EXTENT = 2**31 - 1
_UINT_MAX = 2**32 - 1
_LEAST_ANTIALIASED_SCALE = 2.0**-20


class InterpolationMode(enum.IntEnum):
    """DML_INTERPOLATION_MODE: what becomes of a place between elements."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


Resampled: TypeAlias = "Resample | Resample1 | Resample2 | Resample3"
ResampledGradient: TypeAlias = "ResampleGrad | ResampleGrad1"


@dataclasses.dataclass(frozen=True)
class Resampling:
    """How one axis is resampled: input = (output - output_offset) / scale - input_offset."""

    scale: float  # above 0
    input_offset: float = 0.5  # InputPixelOffset
    output_offset: float = -0.5  # OutputPixelOffset
    is_antialiased: bool = False  # whether all elements count that are nearer to the place than 1 / scale


def resamplings(desc: Resampled | ResampledGradient | Upsample2d) -> tuple[Resampling, ...]:
    """How each axis of a description is resampled."""
    if isinstance(desc, Upsample2d):
        count = desc.input_tensor.dimension_count
        scales: Sequence[float] = (*[1.0] * (count - 2), float(desc.scale_size.height), float(desc.scale_size.width))
    else:
        scales = desc.scales
        count = len(scales)
    is_antialiased = bool(getattr(desc, "antialiased", False)) and desc.interpolation_mode == InterpolationMode.LINEAR
    inputs = getattr(desc, "input_pixel_offsets", None) or (0.5,) * count
    outputs = getattr(desc, "output_pixel_offsets", None) or (-0.5,) * count
    return tuple(
        Resampling(scale, before, behind, is_antialiased and scale < 0.5)
        for scale, before, behind in zip(scales, inputs, outputs, strict=True)
    )


def _resampled_sizes(desc: Described) -> Mapping[str, Sequence[int]]:
    """Checks the attributes; any output sizes are right.

    Raises:
        InvalidArgumentError: when arrays have the wrong length, or a number is not finite or not above 0.
    """
    _check_resampling(desc, "input_tensor", "output_tensor")
    return {}


def _gradient_sizes(desc: Described) -> Mapping[str, Sequence[int]]:
    """Checks the attributes; any sizes of the forward operator's input are right.

    Raises:
        InvalidArgumentError: as above.
    """
    _check_resampling(desc, "input_gradient_tensor", "output_gradient_tensor")
    return {}


def _check_resampling(desc: Described, given: str, wanted: str) -> None:
    source, result = getattr(desc, given), getattr(desc, wanted)
    count = source.dimension_count
    for member in ("scales", "input_pixel_offsets", "output_pixel_offsets"):
        values = getattr(desc, member, None)
        if values is None:
            continue
        check_length(desc, member, count, f"{directml_name(given)}'s DimensionCount")
        for axis, value in enumerate(values):
            if not math.isfinite(value) or (member == "scales" and value < 2.0**-126):
                rule = "a finite number above 0" if member == "scales" else "a finite number"
                refuse(desc, f"{member}[{axis}]", f"must be {rule}; got {value!r}")
            if member == "scales" and getattr(desc, "antialiased", False) and value < _LEAST_ANTIALIASED_SCALE:
                refuse(desc, f"{member}[{axis}]", f"must be at least 2^-20 where Antialiased is set; got {value!r}")
    for tensor, member in ((source, given), (result, wanted)):
        if tensor is not None and any(size > _HIGHEST_EXTENT for size in tensor.sizes):
            refuse(desc, f"{member}.sizes", f"must be below 2^31; got {list(tensor.sizes)}")
    if result is not None:
        check_dimension_count(desc, wanted, count, f"{directml_name(given)}'s")


def _upsampled_sizes(desc: Upsample2d | Draft) -> Mapping[str, Sequence[int]]:
    sizes = list(desc.input_tensor.sizes)
    for axis, factor, name in ((-2, desc.scale_size.height, "height"), (-1, desc.scale_size.width, "width")):
        highest = _UINT_MAX // sizes[axis]
        if not 1 <= factor <= highest:
            refuse(desc, f"scale_size.{name}", f"must be from 1 to {highest}, UINT_MAX / {sizes[axis]}; got {factor}")
        sizes[axis] *= factor
    if any(size > _HIGHEST_EXTENT for size in sizes):
        refuse(desc, "scale_size", f"must leave every size of the output below 2^31; got {sizes}")
    return {"output_tensor": sizes}


_STEPS = (
    "The place in the input, (output - OutputPixelOffset) / Scale - InputPixelOffset, is computed in FLOAT32 with each "
    "of the three steps rounded once, and then brought between the first and the last element: so edges are repeated. "
    "FLOAT32 denormals count as zero."
)
_TIES = "NEAREST_NEIGHBOR takes the element nearest to the place; halfway between two that of the lower index."
_DIRECTIONS = "NEAREST_NEIGHBOR takes the next element in RoundingDirection: the place rounded up or down."
_WEIGHTS = (
    "LINEAR averages along the last axis first, then along the one before it. The weights are 1 - f and f, f being the "
    "place's fraction, 0 if below 2^-24; weights, products and sums are rounded to FLOAT32 one by one. An element of "
    "weight 0 is left out, also where it is NaN or infinite. INT8 and UINT8 results are rounded to nearest even."
)
_ANTIALIASED = (
    "Where Antialiased is set, the mode is LINEAR and 1 / Scale is above 2, all elements count whose distance d from "
    "the place is below 1 / Scale, with the weight 1 - d * Scale, and the sum is divided by the weights' sum. Elements "
    "beyond the edges are those at the edges. Such a Scale must be at least 2^-20."
)
_ACCURACY = Accuracy(
    "accurate", 0.5, "and 2^-22 of the weighted average of magnitudes for each resampled axis; NEAREST_NEIGHBOR exact"
)
_FLOATS_AND_BYTES = (*FLOATS, DataType.INT8, DataType.UINT8)
_LATER_TABLES = (Support("5_1", (1, 4), FLOATS), Support("6_2", (1, 4), _FLOATS_AND_BYTES))
_SCALES = "by what each axis is stretched"
_INPUT_OFFSETS = "added to places in the input, for each axis; 0.5: elements lie in the middle of their pixels"
_OUTPUT_OFFSETS = "added to places in the output, for each axis; -0.5 with 0.5 of the input"
_MODE = "what becomes of a place between elements"


class _Offsets(OperatorDesc):
    dimension_count: int = count_attribute("the tensors' DimensionCount")
    scales: Sequence[float] = float_array_attribute(_SCALES)
    input_pixel_offsets: Sequence[float] = float_array_attribute(_INPUT_OFFSETS)
    output_pixel_offsets: Sequence[float] = float_array_attribute(_OUTPUT_OFFSETS)


class _Direction(OperatorDesc):
    rounding_direction: AxisDirection = enum_attribute("which way NEAREST_NEIGHBOR rounds", AxisDirection)


class _Resampling(OperatorDesc):
    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the resampled values, of any sizes")
    interpolation_mode: InterpolationMode = enum_attribute(_MODE, InterpolationMode)


class Resample(_Resampling):
    """Stretches or shrinks a tensor along any axes (DML_RESAMPLE_OPERATOR_DESC)."""

    scale_count: int = count_attribute("number of Scales: the tensors' DimensionCount")
    scales: Sequence[float] = float_array_attribute(_SCALES, counted_by="scale_count")
    declaration: ClassVar = Declaration(
        "resample",
        "the input at (output + 0.5) / Scale - 0.5",
        decisions=(_STEPS, _TIES, _WEIGHTS),
        shapes=_resampled_sizes,
        accuracy=_ACCURACY,
        support=(Support("2_0", (4, 4), FLOATS), *_LATER_TABLES),
    )


class Resample1(_Offsets, _Resampling):
    """Stretches or shrinks a tensor along any axes, with offsets (DML_RESAMPLE1_OPERATOR_DESC)."""

    declaration: ClassVar = Resample.declaration.version(
        formula="the input at (output - OutputPixelOffset) / Scale - InputPixelOffset",
        support=(Support("2_1", (4, 4), FLOATS), *_LATER_TABLES),
    )


class Resample2(_Offsets, _Direction, _Resampling):
    """Stretches or shrinks a tensor along any axes, with offsets and rounding (DML_RESAMPLE2_OPERATOR_DESC)."""

    declaration: ClassVar = Resample1.declaration.version(
        decisions=(_STEPS, _DIRECTIONS, _WEIGHTS), support=_LATER_TABLES
    )


class Resample3(_Offsets, _Direction, _Resampling):
    """Stretches or shrinks a tensor along any axes, smoothly if asked for (DML_RESAMPLE3_OPERATOR_DESC)."""

    antialiased: bool = boolean_attribute("whether more elements count where LINEAR shrinks an axis to less than half")
    declaration: ClassVar = Resample2.declaration.version(
        decisions=(_STEPS, _DIRECTIONS, _WEIGHTS, _ANTIALIASED), support=(Support("6_4", (1, 4), _FLOATS_AND_BYTES),)
    )


_SUMS = (
    "Weights are those of the forward operator, for LINEAR 1 - f and f. Their product over the axes, the last axis's "
    "last, and its product with the gradient are rounded to FLOAT32 one by one; the sum is in two words, in the "
    "logical order of InputGradientTensor, and rounded once; it does not overflow on the way. A gradient of weight 0 "
    "is left out, also where it is NaN or infinite. A sum of zeros, or of nothing, is +0."
)
_GRADIENT_ACCURACY = Accuracy(
    "accurate",
    0.51,
    "and 2^-22 of the weighted sum of magnitudes for each resampled axis (NEAREST_NEIGHBOR: 2^-40), for n gradients at "
    "least n * 2^-47",
)


class _Gradients(OneGradient):
    input_gradient_tensor: TensorDesc = tensor_input("gradients of the resampled values")
    output_gradient_tensor: TensorDesc = tensor_output("gradients of the values, of any sizes")
    interpolation_mode: InterpolationMode = enum_attribute(_MODE, InterpolationMode)


class ResampleGrad(_Offsets, _Gradients):
    """Gradients of what was stretched or shrunk by RESAMPLE1 (DML_RESAMPLE_GRAD_OPERATOR_DESC)."""

    declaration: ClassVar = Declaration(
        "resample",
        "sum of InputGradient * weight over the elements of RESAMPLE1's output that an element has a part in",
        decisions=(_STEPS, _TIES, _SUMS),
        shapes=_gradient_sizes,
        accuracy=_GRADIENT_ACCURACY,
        support=(Support("3_0", (4, 4), FLOATS), Support("5_1", (1, 4), FLOATS)),
    )


class ResampleGrad1(_Offsets, _Direction, _Gradients):
    """Gradients of what was stretched or shrunk by RESAMPLE2 (DML_RESAMPLE_GRAD1_OPERATOR_DESC)."""

    declaration: ClassVar = ResampleGrad.declaration.version(
        formula="sum of InputGradient * weight over the elements of RESAMPLE2's output that an element has a part in",
        decisions=(_STEPS, _DIRECTIONS, _SUMS),
        support=(Support("5_1", (1, 4), FLOATS),),
    )


class Upsample2d(OperatorDesc):
    """Stretches height and width by integers (DML_UPSAMPLE_2D_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values, {N, C, H, W} or {N, C, D, H, W}")
    output_tensor: TensorDesc = tensor_output("the stretched values")
    scale_size: Size2D = size_attribute("by what height and width are multiplied")
    interpolation_mode: InterpolationMode = enum_attribute(_MODE, InterpolationMode)
    declaration: ClassVar = Declaration(
        "resample",
        "the input at (output + 0.5) / ScaleSize - 0.5, along height and width",
        decisions=(_STEPS, _TIES, _WEIGHTS),
        shapes=_upsampled_sizes,
        accuracy=_ACCURACY,
        support=(Support("1_0", (4, 5), FLOATS),),
    )


MOST_WEIGHED_TAPS = 4  # Elements that count for a place of the output


def _weighed_sizes(desc: WeighedTaps | Draft) -> Mapping[str, Sequence[int]]:
    outer, _, inner = desc.input_tensor.sizes
    places, taps = desc.index_tensor.sizes
    if taps > MOST_WEIGHED_TAPS or not 0 < desc.group <= MOST_WEIGHED_TAPS:
        refuse(desc, "index_tensor.sizes", f"must end with up to {MOST_WEIGHED_TAPS}; got {taps}")
    return {"weight_tensor": (places, taps), "output_tensor": (outer, places, inner)}


class WeighedTaps(OperatorDesc, is_listed=False):
    """Sums of a few weighed elements along an axis (dmlvk's own operator)."""

    input_tensor: TensorDesc = tensor_input("outer, length, inner; packed")
    index_tensor: TensorDesc = tensor_input("places, taps: which elements along the axis count, below its length")
    weight_tensor: TensorDesc = tensor_input("places, taps: what they are multiplied by")
    output_tensor: TensorDesc = tensor_output("outer, places, inner; packed")
    group: int = unsigned_attribute("how many products are added at once: sums of several groups come one by one")
    declaration: ClassVar = Declaration(
        "composed",
        "Output[o, p, i] = sum of Weight[p, t] * Input[o, Index[p, t], i]",
        same_data_type=(),
        shapes=_weighed_sizes,
        decisions=(
            "In FLOAT32: products are those of ELEMENT_WISE_MULTIPLY, sums of a group REDUCE's, those of groups "
            "ELEMENT_WISE_ADD's.",
        ),
        accuracy=Accuracy("accurate", float("inf"), "that of the operators"),
        support=(
            Support(
                "1_0",
                (3, 3),
                FLOATS,
                dimensions_of={"index_tensor": (2, 2), "weight_tensor": (2, 2)},
                index_tensor=(DataType.UINT32,),
                weight_tensor=(DataType.FLOAT32,),
            ),
        ),
    )
