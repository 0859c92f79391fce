"""Products of quantized matrices, convolutions of quantized tensors, and quantization by the range of the elements."""

from __future__ import annotations

from dmlvk.operators.convolution import convolution_sizes
from dmlvk.operators.integer_products import as_convolution, product_sizes
from dmlvk.operators.pooling import SpatialWindows, pooled_sizes
from dmlvk.operators.quantization import QUOTIENT_DECISIONS
from dmlvk.operators.words import *

_BYTES = (DataType.INT8, DataType.UINT8)
_FLOAT32 = (DataType.FLOAT32,)
_INT32 = (DataType.INT32,)
_INTEGERS = (DataType.INT32, DataType.INT16, DataType.INT8, DataType.UINT32, DataType.UINT16, DataType.UINT8)

EXACT_QUOTIENT = "The product of the integer sum and the scales is exact too: a single rounding in all."
INFINITE_SCALE = "0 times infinity is NaN, also of a sum and a scale, or of two scales."
_CONVOLUTION_TYPES: Mapping[str, Any] = {
    "input_scale_tensor": _FLOAT32,
    "filter_scale_tensor": _FLOAT32,
    "output_scale_tensor": _FLOAT32,
    "bias_tensor": _INT32,
}
_PARAMETERS = {
    "input_scale_tensor": (1, 4),
    "input_zero_point_tensor": (1, 4),
    "filter_zero_point_tensor": (1, 4),
    "output_scale_tensor": (1, 4),
    "output_zero_point_tensor": (1, 4),
}
_WRAPS = "The integer sum, with the bias of a convolution, is exact modulo 2^32."


def check_parameter(desc: Described, member: str, axis: int, count: int, what: str) -> None:
    """Checks that a scale or zero point, where it is given, has one element or ``count`` of them along one axis.

    Args:
        desc: the description, or a draft of one.
        axis: the axis, counted from the last one: -1 is that.
        what: for people: ``"one for each row of A"``.
    """
    tensor = getattr(desc, member)
    if tensor is None:
        return
    sizes = tuple(tensor.sizes)
    one = (1,) * len(sizes)
    several = tuple(count if index - len(sizes) == axis else 1 for index in range(len(sizes)))
    if sizes not in (one, several):
        wanted = f"{list(one)}" if count == 1 or one == several else f"{list(one)} or {list(several)} ({what})"
        refuse(desc, f"{member}.sizes", f"must be {wanted}; got {list(sizes)}")


def _check_counts(desc: Described, members: Sequence[str]) -> None:
    """Checks that those of these tensors that are given have one DimensionCount."""
    first = getattr(desc, members[0])
    for member in members[1:]:
        if getattr(desc, member) is not None:
            check_dimension_count(desc, member, first.dimension_count, "as AScaleTensor has")


def _product_sizes(
    desc: MatrixMultiplyIntegerToFloat | QuantizedLinearMatrixMultiply | Draft,
) -> Mapping[str, Sequence[int]]:
    sizes = product_sizes(desc, desc.a_tensor, desc.b_tensor)
    members = ["a_scale_tensor", "a_zero_point_tensor", "b_scale_tensor", "b_zero_point_tensor"]
    for member in members[:2]:
        check_parameter(desc, member, -2, desc.a_tensor.sizes[-2], "one for each row of A")
    for member in members[2:]:
        check_parameter(desc, member, -1, desc.b_tensor.sizes[-1], "one for each column of B")
    _check_counts(desc, members)
    return sizes


def _quantized_product_sizes(desc: QuantizedLinearMatrixMultiply | Draft) -> Mapping[str, Sequence[int]]:
    sizes = _product_sizes(desc)
    for member in ("output_scale_tensor", "output_zero_point_tensor"):
        check_parameter(desc, member, -2, desc.a_tensor.sizes[-2], "one for each row of A")
    _check_counts(desc, ["a_scale_tensor", "output_scale_tensor", "output_zero_point_tensor"])
    return sizes


def _float_product_sizes(desc: MatrixMultiplyIntegerToFloat | Draft) -> Mapping[str, Sequence[int]]:
    sizes = _product_sizes(desc)
    if desc.bias_tensor is not None:
        check_sizes(desc, "bias_tensor", sizes["output_tensor"], "the output's")
    return sizes


def _convolution_sizes(desc: QuantizedLinearConvolution | Draft) -> Mapping[str, Sequence[int]]:
    channels, rank = desc.filter_tensor.sizes[0], desc.input_tensor.dimension_count
    for name in ("input", "output"):
        for kind in ("scale", "zero_point"):
            check_parameter(desc, f"{name}_{kind}_tensor", -1, 1, "one for all")
    for member in ("filter_scale_tensor", "filter_zero_point_tensor"):
        check_parameter(desc, member, 1 - rank, channels, "one for each output channel")
    if desc.bias_tensor is not None:
        check_sizes(desc, "bias_tensor", (1, channels, *(1,) * (rank - 2)), "one for each output channel")
    return convolution_sizes(as_convolution(desc))


def _range_sizes(desc: DynamicQuantizeLinear | Draft) -> Mapping[str, Sequence[int]]:
    ones = (1,) * desc.input_tensor.dimension_count
    sizes = tuple(desc.input_tensor.sizes)
    return {"output_tensor": sizes, "output_scale_tensor": ones, "output_zero_point_tensor": ones}


class _ScaledProduct(OperatorDesc):
    a_tensor: TensorDesc = tensor_input("the left matrices, M x K, quantized")
    a_scale_tensor: TensorDesc = tensor_input("their scale: one number, or one for each row")
    a_zero_point_tensor: TensorDesc | None = tensor_input("their zero point, as many; None for 0", default=None)
    b_tensor: TensorDesc = tensor_input("the right matrices, K x N, quantized")
    b_scale_tensor: TensorDesc = tensor_input("their scale: one number, or one for each column")
    b_zero_point_tensor: TensorDesc | None = tensor_input(
        "their zero point: one number, or one for each column; None for 0", default=None
    )


class QuantizedLinearMatrixMultiply(_ScaledProduct):
    """Products of quantized matrices, quantized (DML_QUANTIZED_LINEAR_MATRIX_MULTIPLY_OPERATOR_DESC)."""

    output_scale_tensor: TensorDesc = tensor_input("scale of the results: one number, or one for each row")
    output_zero_point_tensor: TensorDesc | None = tensor_input(
        "zero point of the results: one number, or one for each row; None for 0", default=None
    )
    output_tensor: TensorDesc = tensor_output("the products, M x N, quantized")
    declaration: ClassVar = Declaration(
        "matrix",
        (
            "round(((A - AZeroPoint) x (B - BZeroPoint)) * AScale * BScale / OutputScale) + OutputZeroPoint, within "
            "the output's data type"
        ),
        shapes=_quantized_product_sizes,
        same_data_type=(
            ("a_tensor", "a_zero_point_tensor"),
            ("b_tensor", "b_zero_point_tensor"),
            ("output_zero_point_tensor", "output_tensor"),
        ),
        decisions=(_WRAPS, EXACT_QUOTIENT, *QUOTIENT_DECISIONS, INFINITE_SCALE),
        support=(
            Support(
                "2_1", (4, 4), _BYTES, a_scale_tensor=_FLOAT32, b_scale_tensor=_FLOAT32, output_scale_tensor=_FLOAT32
            ),
            Support(
                "4_0",
                (1, 4),
                _BYTES,
                dimensions_of={"a_tensor": (2, 4), "b_tensor": (2, 4), "output_tensor": (2, 4)},
                a_scale_tensor=_FLOAT32,
                b_scale_tensor=_FLOAT32,
                output_scale_tensor=_FLOAT32,
            ),
        ),
    )


class MatrixMultiplyIntegerToFloat(_ScaledProduct):
    """Products of quantized matrices as numbers (DML_MATRIX_MULTIPLY_INTEGER_TO_FLOAT_OPERATOR_DESC)."""

    bias_tensor: TensorDesc | None = tensor_input("what is added, M x N; None for nothing", default=None)
    output_tensor: TensorDesc = tensor_output("the products, M x N")
    declaration: ClassVar = Declaration(
        "matrix",
        "((A - AZeroPoint) x (B - BZeroPoint)) * AScale * BScale + Bias",
        shapes=_float_product_sizes,
        same_data_type=(
            ("a_tensor", "a_zero_point_tensor", "b_tensor", "b_zero_point_tensor"),
            ("a_scale_tensor", "b_scale_tensor", "bias_tensor", "output_tensor"),
        ),
        decisions=(
            "The integer sum is exact for every data type and any number of terms: it never wraps.",
            "Its product with both scales is exact too, and rounded once to FLOAT32, to nearest even; the sum with "
            "Bias is rounded once more to FLOAT32; a FLOAT16 result is rounded from that.",
            "FLOAT32 denormals count as zero in scales, Bias and results, and so does a product whose magnitude is "
            "below 2^-126. The sign of a zero product is that of the scales' product.",
            "An absent zero point counts as 0. " + INFINITE_SCALE,
        ),
        accuracy=Accuracy(
            "accurate",
            0.5,
            "of the sum with Bias, and half a unit in the last place of the product in FLOAT32; FLOAT16: 0.501 ULP",
        ),
        support=(
            Support(
                "6_2",
                (1, 4),
                _INTEGERS,
                dimensions_of=dict.fromkeys(("a_tensor", "b_tensor", "bias_tensor", "output_tensor"), (2, 4)),
                a_scale_tensor=FLOATS,
                b_scale_tensor=FLOATS,
                bias_tensor=FLOATS,
                output_tensor=FLOATS,
            ),
        ),
    )


class QuantizedLinearConvolution(OperatorDesc):
    """A convolution of quantized tensors, quantized (DML_QUANTIZED_LINEAR_CONVOLUTION_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("batch, channels, and 1 or 2 spatial dimensions, quantized")
    input_scale_tensor: TensorDesc = tensor_input("its scale: one number")
    input_zero_point_tensor: TensorDesc | None = tensor_input("its zero point; None for 0", default=None)
    filter_tensor: TensorDesc = tensor_input("output channels, input channels of a group, and the window, quantized")
    filter_scale_tensor: TensorDesc = tensor_input("its scale: one number, or one for each output channel")
    filter_zero_point_tensor: TensorDesc | None = tensor_input("its zero point, as many; None for 0", default=None)
    bias_tensor: TensorDesc | None = tensor_input(
        "what is added to the integer sums of each output channel; None for nothing", default=None
    )
    output_scale_tensor: TensorDesc = tensor_input("scale of the results: one number")
    output_zero_point_tensor: TensorDesc | None = tensor_input("zero point of the results; None for 0", default=None)
    output_tensor: TensorDesc = tensor_output("batch, output channels, and the spatial dimensions, quantized")
    dimension_count: int = count_attribute("number of spatial dimensions")
    strides: Sequence[int] = unsigned_array_attribute("how far windows lie from one another")
    dilations: Sequence[int] = unsigned_array_attribute("how far a window's elements lie from one another")
    start_padding: Sequence[int] = unsigned_array_attribute("places before the input's first one")
    end_padding: Sequence[int] = unsigned_array_attribute("places behind the input's last one")
    group_count: int = unsigned_attribute("groups of channels that have nothing to do with one another")
    declaration: ClassVar = Declaration(
        "convolution",
        (
            "round((cross-correlation of Input - InputZeroPoint with Filter - FilterZeroPoint, and Bias) * InputScale "
            "* FilterScale / OutputScale) + OutputZeroPoint, within the output's data type"
        ),
        shapes=_convolution_sizes,
        same_data_type=(
            ("input_tensor", "input_zero_point_tensor"),
            ("filter_tensor", "filter_zero_point_tensor"),
            ("output_zero_point_tensor", "output_tensor"),
        ),
        decisions=(
            _WRAPS,
            "Bias is in units of InputScale * FilterScale: it is added to the integer sum.",
            "What pads the input contributes nothing: it counts as the zero point.",
            EXACT_QUOTIENT,
            *QUOTIENT_DECISIONS,
            INFINITE_SCALE,
        ),
        support=(
            Support("2_1", (4, 4), _BYTES, **_CONVOLUTION_TYPES),
            Support("4_0", (3, 4), _BYTES, dimensions_of=_PARAMETERS, **_CONVOLUTION_TYPES),
            Support(
                "5_2",
                (3, 4),
                _BYTES,
                dimensions_of={**_PARAMETERS, "filter_scale_tensor": (1, 4)},
                **_CONVOLUTION_TYPES,
            ),
        ),
    )


class DynamicQuantizeLinear(OperatorDesc):
    """Quantizes by the range that the elements have (DML_DYNAMIC_QUANTIZE_LINEAR_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the numbers")
    output_tensor: TensorDesc = tensor_output("quantized values")
    output_scale_tensor: TensorDesc = tensor_output("their scale, one element")
    output_zero_point_tensor: TensorDesc = tensor_output("their zero point, one element")
    declaration: ClassVar = Declaration(
        "composed",
        (
            "OutputScale = (largest - smallest) / 255, OutputZeroPoint = Min - smallest / OutputScale, Output = "
            "round(Input / OutputScale) + OutputZeroPoint, within the output's data type; Min is its least value"
        ),
        shapes=_range_sizes,
        same_data_type=(("output_tensor", "output_zero_point_tensor"),),
        decisions=(
            "The range is widened to include 0: the largest element counts as 0 where it is below, the smallest one "
            "where it is above. NaN counts among the elements only where there is nothing else: OutputScale then is "
            "NaN.",
            "OutputScale is FLOAT32, the difference rounded to nearest even, and so its quotient by 255. Where the "
            "difference is beyond the largest number its half is divided by 127.5. Where OutputScale comes to 0, or "
            "below 2^-126, it is 1 / 255.",
            "OutputZeroPoint is rounded to the nearest integer, halves to even, by the exact quotient by the rounded "
            "OutputScale, and saturates.",
            "The elements are quantized as by ELEMENT_WISE_QUANTIZE_LINEAR, those of FLOAT16 as the FLOAT32 numbers "
            "that they are: by the exact quotient by OutputScale, halves to even. NaN gives the zero point.",
        ),
        support=(Support("4_0", (1, 8), _BYTES, input_tensor=FLOATS, output_scale_tensor=_FLOAT32),),
    )


_POOL_PARAMETERS = ("input_scale_tensor", "input_zero_point_tensor", "output_scale_tensor", "output_zero_point_tensor")


def _sizes(desc: QuantizedLinearAveragePooling | Draft) -> Mapping[str, Sequence[int]]:
    sizes = pooled_sizes(desc)
    source = desc.input_tensor
    for member in _POOL_PARAMETERS:
        check_parameter(desc, member, 1 - source.dimension_count, source.sizes[1], "one for each channel")
    return sizes


class _Quantized(OperatorDesc):
    input_tensor: TensorDesc = tensor_input("the values, {N, C, H, W} or {N, C, D, H, W}, quantized")
    input_scale_tensor: TensorDesc = tensor_input("their scale: one number, or one for each channel")
    input_zero_point_tensor: TensorDesc | None = tensor_input(
        "their zero point: one number, or one for each channel; None for 0", default=None
    )
    output_scale_tensor: TensorDesc = tensor_input("scale of the means: one number, or one for each channel")
    output_zero_point_tensor: TensorDesc | None = tensor_input(
        "zero point of the means: one number, or one for each channel; None for 0", default=None
    )
    output_tensor: TensorDesc = tensor_output("the means, quantized")


class QuantizedLinearAveragePooling(SpatialWindows, _Quantized):
    """The mean of each window of a quantized tensor, quantized (DML_QUANTIZED_LINEAR_AVERAGE_POOLING_OPERATOR_DESC)."""

    dilations: Sequence[int] = unsigned_array_attribute(
        "how far apart the elements of a window are, for each spatial axis; 1: side by side"
    )
    include_padding: bool = boolean_attribute("whether padding counts, as the zero point")
    declaration: ClassVar = Declaration(
        "window",
        (
            "round((mean of each window of Input - InputZeroPoint) * InputScale / OutputScale) + OutputZeroPoint, "
            "within the output's data type"
        ),
        shapes=_sizes,
        same_data_type=(("input_tensor", "input_zero_point_tensor"), ("output_zero_point_tensor", "output_tensor")),
        decisions=(
            "The integer sum of a window is exact, and so are its product with InputScale and the quotient of that by "
            "OutputScale times the number of elements: a single rounding in all.",
            *QUOTIENT_DECISIONS,
            INFINITE_SCALE,
            "Padding is the number 0: it adds nothing to the sum. A window of nothing but padding gives the output's "
            "zero point, also where padding is not counted.",
            "Output sizes count dilated windows: (WindowSize - 1) * Dilation + 1 elements along an axis.",
        ),
        support=(
            Support(
                "6_2",
                (4, 5),
                (DataType.INT8, DataType.UINT8),
                dimensions_of=dict.fromkeys(_POOL_PARAMETERS, (1, 5)),
                input_scale_tensor=(DataType.FLOAT32,),
                output_scale_tensor=(DataType.FLOAT32,),
            ),
        ),
    )
