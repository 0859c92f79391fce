"""The operators that make one element of each window over the spatial axes: maxima, averages, norms; the inverse."""

from __future__ import annotations

import math
from typing import TypeAlias

from dmlvk.operators.words import *

Pooling: TypeAlias = (
    "MaxPooling | MaxPooling1 | MaxPooling2 | AveragePooling | AveragePooling1 | LpPooling | LpPooling1"
)

_HIGHEST_INDEX = 2**31 - 1
_FLOATS_AND_BYTES = (*FLOATS, DataType.INT8, DataType.UINT8)


def dilations_of(desc: WithCount | Draft) -> tuple[int, ...]:
    """How far apart the taps of a window are along each spatial axis: ones where the operator has no Dilations."""
    given = getattr(desc, "dilations", None)
    return (1,) * int(desc.dimension_count) if given is None else tuple(given)


def pooled_sizes(desc: WithWindows | Draft, *, of: str = "InputTensor") -> Mapping[str, Sequence[int]]:
    """The sizes of a pooling operator's outputs, ``of`` being DirectML's name of what is pooled.

    Batch and channels are the input's. Along a spatial axis there are
    (input + StartPadding + EndPadding - (WindowSize - 1) * Dilation - 1) / Stride + 1 windows, rounded down.

    Raises:
        InvalidArgumentError: when arrays have the wrong length, a size is 0, or a window is larger than the padded
            input.
    """
    source = desc.input_tensor
    count = source.dimension_count - 2
    if desc.dimension_count != count:
        rule = f"must be {count}, {of}'s without batch and channel; got {desc.dimension_count}"
        refuse(desc, "dimension_count", rule)
    arrays = {
        member: check_length(desc, member, count, "DimensionCount")
        for member in ("strides", "window_size", "start_padding", "end_padding")
    }
    dilations = dilations_of(desc)
    if getattr(desc, "dilations", None) is not None:
        check_length(desc, "dilations", count, "DimensionCount")
    for member, values in (*arrays.items(), ("dilations", dilations)):
        if not member.endswith("padding") and 0 in values:
            refuse(desc, f"{member}[{values.index(0)}]", "must be at least 1; got 0")
    sizes = list(source.sizes[:2])
    for axis in range(count):
        padded = source.sizes[axis + 2] + arrays["start_padding"][axis] + arrays["end_padding"][axis]
        extent = (arrays["window_size"][axis] - 1) * dilations[axis] + 1
        if extent > padded:
            refuse(
                desc,
                f"window_size[{axis}]",
                f"{arrays['window_size'][axis]} spans {extent} elements; the input with its padding has {padded}",
            )
        if padded > _HIGHEST_INDEX:
            refuse(desc, f"start_padding[{axis}]", f"and the input must be below 2^31 elements in all; got {padded}")
        sizes.append((padded - extent) // arrays["strides"][axis] + 1)
    if math.prod(arrays["window_size"]) > _HIGHEST_INDEX:
        refuse(desc, "window_size", f"must have fewer than 2^31 elements; got {list(arrays['window_size'])}")
    return {"output_tensor": tuple(sizes)}


def _indexed_sizes(desc: MaxPooling1 | MaxPooling2 | Draft) -> Mapping[str, Sequence[int]]:
    sizes = pooled_sizes(desc)["output_tensor"]
    return {"output_tensor": sizes, "output_indices_tensor": sizes}


def _norm_sizes(desc: LpPooling | LpPooling1 | Draft) -> Mapping[str, Sequence[int]]:
    if desc.p < 1:
        refuse(desc, "p", f"must be at least 1; got {desc.p}")
    return pooled_sizes(desc)


def _average_gradient_sizes(desc: AveragePoolingGrad | Draft) -> Mapping[str, Sequence[int]]:
    output = desc.output_gradient_tensor
    if output is None:
        return {}
    members = {field.attribute: getattr(desc, field.attribute) for field in AveragePoolingGrad.fields}
    forward = Draft(desc.operator_name, {**members, "input_tensor": output})
    return {"input_gradient_tensor": pooled_sizes(forward, of="OutputGradientTensor")["output_tensor"]}


def _max_gradient_sizes(desc: MaxPoolingGrad | Draft) -> Mapping[str, Sequence[int]]:
    check_sizes(desc, "input_gradient_tensor", pooled_sizes(desc)["output_tensor"], "those of MAX_POOLING2's output")
    return {"output_gradient_tensor": tuple(desc.input_tensor.sizes)}


def _unpooled_sizes(desc: MaxUnpooling | Draft) -> Mapping[str, Sequence[int]]:
    check_sizes(desc, "indices_tensor", desc.input_tensor.sizes, "InputTensor's")
    return {}


_PADDED = "Output sizes count dilated windows: (WindowSize - 1) * Dilation + 1 elements along an axis."
_MAXIMUM = (
    "Of a number and NaN the number is the larger one, +0 is above -0, and padding is never chosen. A window of "
    "nothing but NaN gives the canonical quiet NaN; a window of nothing but padding gives the data type's lowest "
    "value (-infinity of FLOAT types)."
)
_POSITIONS = (
    "An index counts the input's elements in logical order through the whole tensor, whatever its strides are. Of "
    "equal maxima the first one counts, of nothing but NaN the window's first element; a window of nothing but padding "
    "has an index of ones only (4294967295 as UINT32), which MAX_UNPOOLING leaves out."
)
_SUM = (
    "The sum is kept in two words, and runs through the window row by row; through a window that is the whole input, "
    "of more than 256 elements, as REDUCE's does. It does not overflow on the way. FLOAT32 denormals count as zero; a "
    "result of 0 is +0. A window of nothing but padding gives +0, also where padding is not counted."
)
_NORM = (
    "Magnitudes are added, for P = 1 and 2 in the order of AVERAGE_POOLING. Padding adds nothing. P = 0 is refused. "
    "NaN gives NaN, else an infinity gives infinity. "
    "FLOAT32 denormals count as zero. For P from 3 on the result is m * (sum of (|x| / m)^P)^(1 / P), m being the "
    "window's largest magnitude, with each step rounded to FLOAT32, and the sum in two words."
)
_AVERAGES = Accuracy(
    "accurate",
    0.5,
    "and n * 2^-47 of the mean of the n magnitudes (2^-40 for up to 128); FLOAT16 correctly rounded for up to 256",
)
_NORMS = Accuracy(
    "accurate", 0.51, "for P = 1 and 2 with up to 128 elements, n * 2^-47 more beyond; 3 + ln(n) / P ULP for other P"
)
_MAXIMUM_TABLES = (Support("3_0", (4, 5), _FLOATS_AND_BYTES), Support("5_0", (4, 5), TYPES_TO_64))
_INDEXED_TABLES = (
    Support("3_0", (4, 5), _FLOATS_AND_BYTES, output_indices_tensor=(DataType.UINT32,)),
    Support("5_0", (4, 5), TYPES_TO_64, output_indices_tensor=(DataType.UINT64, DataType.UINT32)),
)
_COUNT = "number of spatial axes: 2 for {N, C, H, W}, 3 for {N, C, D, H, W}"
_STRIDES = "how far apart windows are, for each spatial axis"
_WINDOW = "elements of a window along each spatial axis"
_START = "elements of padding before the input along each spatial axis"
_END = "elements of padding behind the input along each spatial axis"
_DILATIONS = "how far apart the elements of a window are, for each spatial axis; 1: side by side"
_INPUT = "the values, {N, C, H, W} or {N, C, D, H, W}"


class SpatialWindows(OperatorDesc):
    """Windows along spatial axes."""

    dimension_count: int = count_attribute(_COUNT)
    strides: Sequence[int] = unsigned_array_attribute(_STRIDES)
    window_size: Sequence[int] = unsigned_array_attribute(_WINDOW)
    start_padding: Sequence[int] = unsigned_array_attribute(_START)
    end_padding: Sequence[int] = unsigned_array_attribute(_END)


class _Windows(SpatialWindows, OneInput):
    input_tensor: TensorDesc = tensor_input(_INPUT)
    output_tensor: TensorDesc = tensor_output("the means")


class MaxPooling(_Windows):
    """The largest element of each window (DML_MAX_POOLING_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the maxima")
    declaration: ClassVar = Declaration(
        "window",
        "the largest element of each window",
        decisions=(_MAXIMUM,),
        shapes=pooled_sizes,
        support=(Support("1_0", (4, 5), FLOATS), *_MAXIMUM_TABLES),
    )


class _Maxima(OneInput):
    input_tensor: TensorDesc = tensor_input(_INPUT)
    output_tensor: TensorDesc = tensor_output("the maxima")
    output_indices_tensor: TensorDesc | None = tensor_output("the maxima's indices in the input", default=None)


class MaxPooling1(SpatialWindows, _Maxima):
    """The largest element of each window, and where it lies (DML_MAX_POOLING1_OPERATOR_DESC)."""

    declaration: ClassVar = MaxPooling.declaration.version(
        formula="the largest element of each window, and its index in the input",
        decisions=(_MAXIMUM, _POSITIONS),
        shapes=_indexed_sizes,
        same_data_type=(("input_tensor", "output_tensor"),),
        support=(Support("2_0", (4, 5), FLOATS, output_indices_tensor=(DataType.UINT32,)), *_INDEXED_TABLES),
    )


class MaxPooling2(SpatialWindows, _Maxima):
    """The largest element of each dilated window, and where it lies (DML_MAX_POOLING2_OPERATOR_DESC)."""

    dilations: Sequence[int] = unsigned_array_attribute(_DILATIONS)
    declaration: ClassVar = MaxPooling1.declaration.version(
        decisions=(_MAXIMUM, _POSITIONS, _PADDED),
        support=(Support("2_1", (4, 5), FLOATS, output_indices_tensor=(DataType.UINT32,)), *_INDEXED_TABLES),
    )


class _Gradients(OperatorDesc):
    input_tensor: TensorDesc = tensor_input(_INPUT)
    input_gradient_tensor: TensorDesc = tensor_input("gradients of the maxima")
    output_gradient_tensor: TensorDesc = tensor_output("gradients of the values")


class MaxPoolingGrad(SpatialWindows, _Gradients):
    """Gradients of the elements of which the largest were taken (DML_MAX_POOLING_GRAD_OPERATOR_DESC)."""

    dilations: Sequence[int] = unsigned_array_attribute(_DILATIONS)
    declaration: ClassVar = Declaration(
        "fill",
        "sum of InputGradient over the windows whose largest element an element is; 0 where there is none",
        decisions=(
            "A window's gradient belongs to the element that MAX_POOLING2's index names: of equal maxima the first, a "
            "number rather than NaN, +0 rather than -0, of nothing but NaN the window's first element. The gradient "
            "of a window of nothing but padding is left out.",
            "InputGradientTensor has the sizes of MAX_POOLING2's output, whose windows are dilated. Gradients are "
            "added in two words, by rising place in the window, and rounded once; no sum overflows on the way. FLOAT32 "
            "denormals count as zeros. A sum of zeros, or of nothing, is +0.",
            "The page says that only four dimensions are supported, and its table for feature level 4_0 has five, too: "
            "the table counts.",
        ),
        shapes=_max_gradient_sizes,
        same_sizes=(("input_tensor", "output_gradient_tensor"),),
        accuracy=Accuracy(
            "accurate", 0.51, "and n * 2^-47 of the sum of magnitudes of n gradients (2^-40 for up to 128)"
        ),
        support=(Support("3_0", (4, 4), FLOATS), Support("4_0", (4, 5), FLOATS)),
    )


class AveragePooling(_Windows):
    """The mean of each window (DML_AVERAGE_POOLING_OPERATOR_DESC)."""

    include_padding: bool = boolean_attribute("whether padding counts, as zeros")
    declaration: ClassVar = Declaration(
        "window",
        "sum of each window / number of its elements",
        decisions=(_SUM,),
        shapes=pooled_sizes,
        accuracy=_AVERAGES,
        support=(Support("1_0", (4, 5), FLOATS),),
    )


class AveragePooling1(_Windows):
    """The mean of each dilated window (DML_AVERAGE_POOLING1_OPERATOR_DESC)."""

    dilations: Sequence[int] = unsigned_array_attribute(_DILATIONS)
    include_padding: bool = boolean_attribute("whether padding counts, as zeros")
    declaration: ClassVar = AveragePooling.declaration.version(
        decisions=(_SUM, _PADDED), support=(Support("6_2", (4, 5), FLOATS),)
    )


class AveragePoolingGrad(SpatialWindows, OneGradient):
    """Gradients of the elements of which means were made (DML_AVERAGE_POOLING_GRAD_OPERATOR_DESC)."""

    input_gradient_tensor: TensorDesc = tensor_input("gradients of the means")
    output_gradient_tensor: TensorDesc = tensor_output("gradients of the elements")
    include_padding: bool = boolean_attribute("whether padding counted in the means")
    declaration: ClassVar = Declaration(
        "fill",
        "sum of InputGradient / number of its elements over the windows that an element lies in",
        decisions=(
            "InputGradientTensor has the sizes of AVERAGE_POOLING's output. Gradients are added in two words, by "
            "rising place in the window, and rounded once; no sum overflows on the way. FLOAT32 denormals count as "
            "zeros. What falls on padding is left out.",
        ),
        shapes=_average_gradient_sizes,
        accuracy=Accuracy("accurate", 0.51, "and 2^-39 of the sum of magnitudes"),
        support=(Support("3_0", (4, 5), FLOATS),),
    )


class LpPooling(_Windows):
    """The norm of each window (DML_LP_POOLING_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the norms")
    p: int = unsigned_attribute("the power, at least 1")
    declaration: ClassVar = Declaration(
        "window",
        "(sum of |x|^P over each window)^(1 / P)",
        decisions=(_NORM,),
        shapes=_norm_sizes,
        accuracy=_NORMS,
        support=(Support("1_0", (4, 5), FLOATS),),
    )


class LpPooling1(_Windows):
    """The norm of each dilated window (DML_LP_POOLING1_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the norms")
    dilations: Sequence[int] = unsigned_array_attribute(_DILATIONS)
    p: int = unsigned_attribute("the power, at least 1")
    declaration: ClassVar = LpPooling.declaration.version(
        decisions=(_NORM, _PADDED), support=(Support("6_2", (4, 5), FLOATS),)
    )


class MaxUnpooling(OperatorDesc):
    """Puts maxima back where they were found (DML_MAX_UNPOOLING_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values, {N, C, H, W}")
    indices_tensor: TensorDesc = tensor_input("where each value is put, counted through the whole output")
    output_tensor: TensorDesc = tensor_output("the values in their places, 0 elsewhere; of any sizes")
    declaration: ClassVar = Declaration(
        "window",
        "output = 0; then output[indices[i]] = input[i] for all i",
        decisions=(
            "An index counts the output's elements in logical order, whatever its strides are. Of several values with "
            "one index the last one is kept, in the order of the input's elements with the last axis fastest. A value "
            "with an index outside of the output is left out.",
        ),
        shapes=_unpooled_sizes,
        same_data_type=(("input_tensor", "output_tensor"),),
        moves=("input_tensor", "output_tensor"),
        support=(
            Support("3_0", (4, 4), FLOATS, indices_tensor=(DataType.UINT32,)),
            Support("5_0", (4, 4), TYPES_TO_64, indices_tensor=(DataType.UINT64, DataType.UINT32)),
        ),
    )
