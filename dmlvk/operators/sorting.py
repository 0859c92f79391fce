"""The operators that put rows in order: TOP_K and TOP_K1."""

from __future__ import annotations

from dmlvk.operators.words import *

_UINT32 = (DataType.UINT32,)

_ORDER = (
    "NaN comes behind all numbers, whether the largest or the smallest are wanted. Both zeros are equal, and denormals "
    "are the numbers they are. Equal elements, NaN among themselves too, come by rising index."
)
_VALUES = "Every value stays as it is, bit by bit: -0 is written as -0, NaN with its payload."
_ALL = "K may be as large as the size along Axis: then the whole row is sorted."


_SUPPORT = (
    Support("2_0", (4, 4), FLOATS, output_index_tensor=_UINT32),
    Support("2_1", (4, 4), TYPES_TO_32, output_index_tensor=_UINT32),
    Support("3_1", (1, 8), TYPES_TO_32, output_index_tensor=_UINT32),
    Support("5_0", (1, 8), TYPES_TO_64, output_index_tensor=(DataType.UINT64, DataType.UINT32)),
)


def _shapes(desc: TopK | TopK1 | Draft) -> Mapping[str, Sizes]:
    axis = check_axis(desc, "axis", "input_tensor")
    sizes = list(desc.input_tensor.sizes)
    if not 1 <= desc.k <= sizes[axis]:
        refuse(desc, "k", f"must be from 1 to InputTensor.Sizes[{axis}] {sizes[axis]}; got {desc.k}")
    sizes[axis] = desc.k
    return {"output_value_tensor": tuple(sizes), "output_index_tensor": tuple(sizes)}


class TopK(OperatorDesc):
    """The largest elements of each row, in descending order (DML_TOP_K_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_value_tensor: TensorDesc = tensor_output("the largest values of each row, the largest first")
    output_index_tensor: TensorDesc = tensor_output("where they stand in their rows")
    axis: int = unsigned_attribute("the axis along which the rows lie")
    k: int = unsigned_attribute("how many elements of each row are wanted")
    declaration: ClassVar = Declaration(
        "sort",
        "the K largest elements of each row, in descending order, and their places",
        decisions=(_ORDER, _VALUES, _ALL),
        same_data_type=(("input_tensor", "output_value_tensor"),),
        shapes=_shapes,
        support=_SUPPORT,
    )


class TopK1(OperatorDesc):
    """The largest or smallest elements of each row, in order (DML_TOP_K1_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_value_tensor: TensorDesc = tensor_output("the values that are wanted of each row, in order")
    output_index_tensor: TensorDesc = tensor_output("where they stand in their rows")
    axis: int = unsigned_attribute("the axis along which the rows lie")
    k: int = unsigned_attribute("how many elements of each row are wanted")
    axis_direction: AxisDirection = enum_attribute(
        "DECREASING: the largest, in descending order; INCREASING: the smallest, in ascending order", AxisDirection
    )
    declaration: ClassVar = TopK.declaration.version(
        formula="the K largest or smallest elements of each row, in order, and their places", support=_SUPPORT[1:]
    )
