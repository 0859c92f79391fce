"""Products of matrices of 8-bit integers, and convolutions of them."""

from __future__ import annotations

from dmlvk.operators.convolution import ConvolutionDirection, ConvolutionMode, convolution_sizes
from dmlvk.operators.words import *

_BYTES = (DataType.INT8, DataType.UINT8)
_WORDS = (DataType.INT32,)

_WRAPS = "Sums are exact modulo 2^32. An absent zero point counts as 0."
_PADDING = "What pads the input contributes nothing: it counts as the zero point."


def check_counted(desc: Described, member: str, count: int, what: str) -> None:
    """Checks that an optional tensor has one element, or ``count`` of them along one axis."""
    tensor = getattr(desc, member)
    if tensor is not None:
        long = [size for size in tensor.sizes if size > 1]
        if long and long != [count]:
            refuse(desc, f"{member}.sizes", f"must hold 1 or {count} elements, {what}; got {list(tensor.sizes)}")


def product_sizes(desc: Described, a: TensorDesc, b: TensorDesc) -> Mapping[str, Sequence[int]]:
    """The rule that the sizes of a product follow."""
    check_dimension_count(desc, "b_tensor", a.dimension_count, "as ATensor has")
    if b.sizes[:-2] != a.sizes[:-2]:
        refuse(desc, "b_tensor.sizes", f"must begin as ATensor's, with {list(a.sizes[:-2])}; got {list(b.sizes)}")
    if b.sizes[-2] != a.sizes[-1]:
        refuse(desc, "b_tensor.sizes", f"must have {a.sizes[-1]} rows, as ATensor has columns; got {list(b.sizes)}")
    return {"output_tensor": (*a.sizes[:-1], b.sizes[-1])}


def _counted_product_sizes(desc: MatrixMultiplyInteger | Draft) -> Mapping[str, Sequence[int]]:
    sizes = product_sizes(desc, desc.a_tensor, desc.b_tensor)
    check_counted(desc, "a_zero_point_tensor", desc.a_tensor.sizes[-2], "one for each row of A")
    check_counted(desc, "b_zero_point_tensor", desc.b_tensor.sizes[-1], "one for each column of B")
    return sizes


def _convolution_sizes(desc: ConvolutionInteger | Draft) -> Mapping[str, Sequence[int]]:
    check_counted(desc, "input_zero_point_tensor", 1, "for all of the input")
    check_counted(desc, "filter_zero_point_tensor", desc.filter_tensor.sizes[0], "one for each output channel")
    return convolution_sizes(as_convolution(desc))


def as_convolution(desc: WithInput | Draft) -> Draft:
    """The members of a CONVOLUTION that has the same sizes, steps and groups."""
    members = ("strides", "dilations", "start_padding", "end_padding", "dimension_count", "group_count")
    tensors = ("input_tensor", "filter_tensor", "output_tensor")
    return Draft(
        desc.operator_name,
        {
            **{member: getattr(desc, member) for member in (*members, *tensors)},
            "output_padding": (0,) * (desc.input_tensor.dimension_count - 2),
            "mode": ConvolutionMode.CROSS_CORRELATION,
            "direction": ConvolutionDirection.FORWARD,
        },
    )


class MatrixMultiplyInteger(OperatorDesc):
    """Products of matrices of 8-bit integers (DML_MATRIX_MULTIPLY_INTEGER_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("the left matrices, M x K")
    a_zero_point_tensor: TensorDesc | None = tensor_input(
        "what is subtracted from A: one number, or one for each row", default=None
    )
    b_tensor: TensorDesc = tensor_input("the right matrices, K x N")
    b_zero_point_tensor: TensorDesc | None = tensor_input(
        "what is subtracted from B: one number, or one for each column", default=None
    )
    output_tensor: TensorDesc = tensor_output("M x N")
    declaration: ClassVar = Declaration(
        "matrix",
        "(A - AZeroPoint) * (B - BZeroPoint)",
        shapes=_counted_product_sizes,
        same_data_type=(("a_tensor", "a_zero_point_tensor"), ("b_tensor", "b_zero_point_tensor")),
        decisions=(_WRAPS,),
        support=(
            Support("2_1", (4, 4), _BYTES, output_tensor=_WORDS),
            Support("4_0", (2, 4), _BYTES, dimensions_of={"a_zero_point_tensor": (1, 4)}, output_tensor=_WORDS),
            Support(
                "5_2",
                (2, 4),
                _BYTES,
                dimensions_of={"a_zero_point_tensor": (1, 4), "b_zero_point_tensor": (1, 4)},
                output_tensor=_WORDS,
            ),
        ),
    )


class ConvolutionInteger(OperatorDesc):
    """A convolution of 8-bit integers (DML_CONVOLUTION_INTEGER_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("batch, channels, and 1 or 2 spatial dimensions")
    input_zero_point_tensor: TensorDesc | None = tensor_input(
        "what is subtracted from the input: one number", default=None
    )
    filter_tensor: TensorDesc = tensor_input("output channels, input channels of a group, and the window")
    filter_zero_point_tensor: TensorDesc | None = tensor_input(
        "what is subtracted from the filter: one number, or one for each output channel", default=None
    )
    output_tensor: TensorDesc = tensor_output("batch, output channels, and the spatial dimensions")
    dimension_count: int = count_attribute("number of spatial dimensions")
    strides: Sequence[int] = unsigned_array_attribute("how far windows lie from one another")
    dilations: Sequence[int] = unsigned_array_attribute("how far a window's elements lie from one another")
    start_padding: Sequence[int] = unsigned_array_attribute("places before the input's first one")
    end_padding: Sequence[int] = unsigned_array_attribute("places behind the input's last one")
    group_count: int = unsigned_attribute("groups of channels that have nothing to do with one another")
    declaration: ClassVar = Declaration(
        "convolution",
        "cross-correlation of Input - InputZeroPoint with Filter - FilterZeroPoint",
        shapes=_convolution_sizes,
        same_data_type=(("input_tensor", "input_zero_point_tensor"), ("filter_tensor", "filter_zero_point_tensor")),
        decisions=(_WRAPS, _PADDING),
        support=(
            Support("2_1", (4, 4), _BYTES, output_tensor=_WORDS),
            Support(
                "4_0",
                (3, 4),
                _BYTES,
                dimensions_of={"input_zero_point_tensor": (1, 4), "filter_zero_point_tensor": (1, 4)},
                output_tensor=_WORDS,
            ),
        ),
    )
