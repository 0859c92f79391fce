"""The operators that fill tensors from attributes, and windows that elements are moved to or from."""

from __future__ import annotations

import math

from dmlvk.operators.movement import MOVED, InputWindow, check_within_limits, window_limits
from dmlvk.operators.words import *


def _any_output(desc: Described) -> Mapping[str, Sequence[int]]:
    return {}


def _like_optional_input(desc: DiagonalMatrix1 | Draft) -> Mapping[str, Sequence[int]]:
    return {} if desc.input_tensor is None else {"output_tensor": tuple(desc.input_tensor.sizes)}


def _slice_grad_sizes(desc: SliceGrad | Draft) -> Mapping[str, Sequence[int]]:
    if desc.output_gradient_tensor is not None:
        limits = window_limits(desc, "output_gradient_tensor")
        check_within_limits(desc, "input_gradient_tensor", limits)
    return {}


WINDOW_ARRAYS = ("window_sizes", "strides", "dilations", "start_padding", "end_padding")
"""The members of UNFOLD and FOLD that have an entry for each spatial dimension."""


def blocks_along(desc: Described, sizes: Sequence[int]) -> tuple[int, ...]:
    """How many positions a window has along each spatial dimension.

    Args:
        desc: the description, or a draft.
        sizes: the spatial sizes of the tensor in which it moves.

    Raises:
        InvalidArgumentError: when attributes have the wrong length or value, or the window does not fit.
    """
    for member in WINDOW_ARRAYS:
        check_length(desc, member, len(sizes), "as many as there are spatial dimensions")
    counts = []
    for axis, size in enumerate(sizes):
        window, stride, dilation, start, end = (getattr(desc, member)[axis] for member in WINDOW_ARRAYS)
        for member, value in (("window_sizes", window), ("strides", stride), ("dilations", dilation)):
            if value < 1:
                refuse(desc, f"{member}[{axis}]", f"must be at least 1; got {value}")
        padded, reach = size + start + end, dilation * (window - 1) + 1
        if reach > padded:
            refuse(desc, f"window_sizes[{axis}]", f"reaches over {reach} elements; the padded input has {padded}")
        counts.append((padded - reach) // stride + 1)
    return tuple(counts)


def _unfold_sizes(desc: Unfold | Draft) -> Mapping[str, Sequence[int]]:
    batch, channels, *spatial = desc.input_tensor.sizes
    if desc.dimension_count != len(spatial):
        rule = f"must be {len(spatial)}, InputTensor.DimensionCount less 2"
        refuse(desc, "dimension_count", f"{rule}; got {desc.dimension_count}")
    blocks = blocks_along(desc, spatial)
    sizes = (batch, channels * math.prod(desc.window_sizes), math.prod(blocks))
    if desc.output_tensor is not None and desc.output_tensor.dimension_count > 3:
        ones = (1,) * (desc.output_tensor.dimension_count - 3)
        check_sizes(desc, "output_tensor", (*ones, *sizes), "three dimensions behind leading ones")
        return {}
    return {"output_tensor": sizes}


def _fold_sizes(desc: Fold | Draft) -> Mapping[str, Sequence[int]]:
    output = desc.output_tensor
    if output is None:
        return {}
    batch, channels, *spatial = output.sizes
    if desc.dimension_count != len(spatial):
        rule = f"must be {len(spatial)}, OutputTensor.DimensionCount less 2"
        refuse(desc, "dimension_count", f"{rule}; got {desc.dimension_count}")
    blocks = blocks_along(desc, spatial)
    sizes = (batch, channels * math.prod(desc.window_sizes), math.prod(blocks))
    ones = (1,) * (desc.input_tensor.dimension_count - 3)
    check_sizes(desc, "input_tensor", (*ones, *sizes), "as OutputTensor and the window say")
    return {}


def _value_scale_sizes(desc: ValueScale2d | Draft) -> Mapping[str, Sequence[int]]:
    channels = desc.input_tensor.sizes[1]
    if channels not in (1, 3):
        refuse(desc, "input_tensor.sizes[1]", f"must be 1 or 3; got {channels}")
    if desc.channel_count != channels:
        refuse(desc, "channel_count", f"must be InputTensor.Sizes[1] {channels}; got {desc.channel_count}")
    return {}


class DiagonalMatrix(OperatorDesc):
    """A value along a diagonal (DML_DIAGONAL_MATRIX_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("matrices with the value on a diagonal, and 0 elsewhere")
    offset: int = integer_attribute("which diagonal: column less row")
    value: float = float_attribute("what is on it", converted_to="output_tensor")
    declaration: ClassVar = Declaration(
        "fill",
        "Value where x - y = Offset, else 0",
        decisions=("Value is converted to the tensor's data type as CAST does: truncated and saturated for integers.",),
        shapes=_any_output,
        support=(
            Support("2_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("4_0", (2, 4), TYPES_TO_32),
            Support("5_1", (2, 4), ALL_TYPES),
        ),
    )


class DiagonalMatrix1(OperatorDesc):
    """A value along a band of diagonals, or beside it (DML_DIAGONAL_MATRIX1_OPERATOR_DESC)."""

    input_tensor: TensorDesc | None = tensor_input("what is elsewhere; None for 0", default=None)
    output_tensor: TensorDesc = tensor_output("matrices with the value on the band")
    value_data_type: DataType = data_type_attribute("data type of Value", equals="output_tensor")
    value: float | int = scalar_union_attribute(
        "what is on the band", typed_by="value_data_type", converted_to="output_tensor"
    )
    diagonal_fill_begin: int = integer_attribute("the band's first diagonal: column less row")
    diagonal_fill_end: int = integer_attribute(
        "the diagonal behind its last one; below the first: all others are filled"
    )
    declaration: ClassVar = DiagonalMatrix.declaration.version(
        formula="Value where DiagonalFillBegin <= x - y < DiagonalFillEnd, else Input or 0; with DiagonalFillBegin > "
        "DiagonalFillEnd: where not DiagonalFillEnd <= x - y < DiagonalFillBegin",
        decisions=(MOVED,),
        shapes=_like_optional_input,
        support=(Support("5_1", (2, 4), ALL_TYPES),),
    )


class FillValueConstant(OperatorDesc):
    """One value everywhere (DML_FILL_VALUE_CONSTANT_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the value everywhere")
    value_data_type: DataType = data_type_attribute("data type of Value", equals="output_tensor")
    value: float | int = scalar_union_attribute("the value", typed_by="value_data_type", converted_to="output_tensor")
    declaration: ClassVar = Declaration(
        "fill",
        "Value",
        shapes=_any_output,
        support=(
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("4_0", (1, 8), TYPES_TO_32),
            Support("4_1", (1, 8), ALL_TYPES),
        ),
    )


class FillValueSequence(OperatorDesc):
    """Numbers at equal distances (DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("the numbers, in row-major order")
    value_data_type: DataType = data_type_attribute("data type of the values", equals="output_tensor")
    value_start: float | int = scalar_union_attribute(
        "the first number", typed_by="value_data_type", converted_to="output_tensor"
    )
    value_delta: float | int = scalar_union_attribute(
        "how far apart neighbours are; may be below 0 for unsigned types too",
        typed_by="value_data_type",
        converted_to="output_tensor",
        wraps=True,
    )
    declaration: ClassVar = Declaration(
        "fill",
        "ValueStart + i * ValueDelta; i is an element's number in row-major order",
        decisions=(
            "Integers wrap. Of floats the product and the sum are exact, and rounded once to nearest even; FLOAT32 "
            "denormals count as zeros, in the values and in the results.",
        ),
        shapes=_any_output,
        accuracy=Accuracy("correctly rounded", 0.5),
        support=(
            Support("2_1", (4, 4), TYPES_TO_32),
            Support("4_0", (1, 8), TYPES_TO_32),
            Support("5_0", (1, 8), TYPES_TO_64),
        ),
    )


class _Positions(OperatorDesc):
    dimension_count: int = count_attribute("number of spatial dimensions")
    window_sizes: Sequence[int] = unsigned_array_attribute("places of the window")
    strides: Sequence[int] = unsigned_array_attribute("how far the window moves")
    dilations: Sequence[int] = unsigned_array_attribute("how far its places lie apart")
    start_padding: Sequence[int] = unsigned_array_attribute("places before the output")
    end_padding: Sequence[int] = unsigned_array_attribute("places behind the output")


class Fold(_Positions, OneInput):
    """Columns of windows added up at the places that they lay at (DML_FOLD_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("batch, channels and places in the window, positions of the window")
    output_tensor: TensorDesc = tensor_output("batch, channels, and 1 to 6 spatial dimensions: the sums")
    declaration: ClassVar = Declaration(
        "fill",
        "Output[n, c, x] = sum of Input[n, (c, w), p] over x = p * Strides + w * Dilations - StartPadding",
        decisions=(
            "Addends are kept in two words, by rising place in the window, and rounded once; no sum overflows on the "
            "way. FLOAT32 denormals count as zeros. A sum of zeros is +0; infinities of both signs give NaN.",
            "The page names no data types: FLOAT32 and FLOAT16 are there. InputTensor has three dimensions, or leading "
            "ones of size 1 before them.",
        ),
        shapes=_fold_sizes,
        accuracy=Accuracy("accurate", 0.51, "and 2^-40 of the sum of magnitudes"),
        support=(Support("6_4", (3, 8), FLOATS),),
    )


class SliceGrad(InputWindow, OneGradient):
    """Gradients of SLICE1's results at the places that these came from (DML_SLICE_GRAD_OPERATOR_DESC)."""

    input_gradient_tensor: TensorDesc = tensor_input("gradients of the elements of a window")
    output_gradient_tensor: TensorDesc = tensor_output("these at their places, and 0 elsewhere")
    declaration: ClassVar = Declaration(
        "copies",
        "Output[start + c * InputWindowStrides] = Input[c], start as for SLICE1; 0 elsewhere",
        decisions=(MOVED, "No stride may be 0."),
        shapes=_slice_grad_sizes,
        moves=("input_gradient_tensor", "output_gradient_tensor"),
        support=(
            Support("3_0", (4, 5), TYPES_TO_32),
            Support("3_1", (1, 8), TYPES_TO_32),
            Support("4_1", (1, 8), ALL_TYPES),
        ),
    )


class Unfold(_Positions, OneInput):
    """The contents of a window at each of its positions, as columns (DML_UNFOLD_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("batch, channels, and 1 to 6 spatial dimensions")
    output_tensor: TensorDesc = tensor_output("batch, channels and places in the window, positions of the window")
    start_padding: Sequence[int] = unsigned_array_attribute("zeros before the input")
    end_padding: Sequence[int] = unsigned_array_attribute("zeros behind the input")
    declaration: ClassVar = Declaration(
        "copies",
        "Output[n, (c, w), p] = Input[n, c, p * Strides + w * Dilations - StartPadding], 0 in the padding",
        decisions=(
            MOVED,
            "The page names no data types: all are there. OutputTensor has three dimensions, or leading ones of size 1 "
            "before them.",
        ),
        shapes=_unfold_sizes,
        moves=("input_tensor", "output_tensor"),
        support=(Support("6_4", (3, 8), ALL_TYPES),),
    )


class ValueScale2d(OperatorDesc):
    """Pixels scaled, with a bias for each channel (DML_VALUE_SCALE_2D_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("batch, 1 or 3 channels, height, width")
    output_tensor: TensorDesc = tensor_output("the same, scaled and biased")
    scale: float = float_attribute("factor of every element")
    channel_count: int = count_attribute("number of channels, 1 or 3")
    bias: Sequence[float] = float_array_attribute("what is added, by channel", counted_by="channel_count")
    declaration: ClassVar = Declaration(
        "fill",
        "Scale * x + Bias[c]",
        decisions=(
            "Scale * x + Bias is computed exactly and rounded once; FLOAT32 denormals count as zeros, in operands "
            "and in results.",
        ),
        same_sizes=(("input_tensor", "output_tensor"),),
        shapes=_value_scale_sizes,
        accuracy=Accuracy("correctly rounded", 0.5),
        support=(Support("1_0", (4, 4), FLOATS),),
    )
