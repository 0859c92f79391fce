"""The ELEMENT_WISE operators on the bits of elements, whatever their data type."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.declaration import Declaration, OperatorDesc, Support
from dmlvk.operators.members import tensor_input, tensor_output
from dmlvk.operators.type_groups import ALL_TYPES, BOOLEANS, EXACT, UNSIGNED_TO_32, UNSIGNED_TO_64
from dmlvk.tensors import TensorDesc

_SUPPORT = (
    Support("3_0", (1, 8), UNSIGNED_TO_32),
    Support("4_1", (1, 8), ALL_TYPES),
)


class ElementWiseBitAnd(OperatorDesc):
    """The bits that are 1 in both operands (DML_ELEMENT_WISE_BIT_AND_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("left operand")
    b_tensor: TensorDesc = tensor_input("right operand")
    output_tensor: TensorDesc = tensor_output("their conjunction, bit by bit")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_BIT_AND",
        pattern="elementwise",
        formula="a & b",
        in_place=(
            "a_tensor",
            "b_tensor",
        ),
        moves=("a_tensor", "b_tensor", "output_tensor"),
        accuracy=EXACT,
        support=_SUPPORT,
    )


class ElementWiseBitCount(OperatorDesc):
    """How many bits are 1 (DML_ELEMENT_WISE_BIT_COUNT_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their number, from 0 to the width of the input type")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_BIT_COUNT",
        pattern="elementwise",
        formula="number of bits of x that are 1",
        same_data_type=(),
        moves=("input_tensor",),
        accuracy=EXACT,
        support=(
            Support("3_0", (1, 8), UNSIGNED_TO_32, output_tensor=BOOLEANS),
            Support("4_1", (1, 8), ALL_TYPES, output_tensor=BOOLEANS),
        ),
    )


class ElementWiseBitNot(OperatorDesc):
    """Every bit inverted (DML_ELEMENT_WISE_BIT_NOT_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("the inverted bits")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_BIT_NOT",
        pattern="elementwise",
        formula="~x",
        in_place=("input_tensor",),
        moves=("input_tensor", "output_tensor"),
        accuracy=EXACT,
        support=(
            Support("3_0", (1, 8), UNSIGNED_TO_32),
            Support("4_1", (1, 8), ALL_TYPES),
        ),
    )


class ElementWiseBitOr(OperatorDesc):
    """The bits that are 1 in one operand at least (DML_ELEMENT_WISE_BIT_OR_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("left operand")
    b_tensor: TensorDesc = tensor_input("right operand")
    output_tensor: TensorDesc = tensor_output("their disjunction, bit by bit")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_BIT_OR",
        pattern="elementwise",
        formula="a | b",
        in_place=(
            "a_tensor",
            "b_tensor",
        ),
        moves=("a_tensor", "b_tensor", "output_tensor"),
        accuracy=EXACT,
        support=_SUPPORT,
    )


class ElementWiseBitShiftLeft(OperatorDesc):
    """Bits moved to higher places (DML_ELEMENT_WISE_BIT_SHIFT_LEFT_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("the bits")
    b_tensor: TensorDesc = tensor_input("by how many places")
    output_tensor: TensorDesc = tensor_output("the shifted bits")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_BIT_SHIFT_LEFT",
        pattern="elementwise",
        formula="a << b, zeros coming in",
        decisions=("A shift by the width of the type or more gives 0: every bit was shifted out.",),
        in_place=(
            "a_tensor",
            "b_tensor",
        ),
        accuracy=EXACT,
        support=(
            Support("2_1", (4, 4), UNSIGNED_TO_32),
            Support("3_0", (1, 8), UNSIGNED_TO_32),
            Support("4_1", (1, 8), UNSIGNED_TO_64),
        ),
    )


class ElementWiseBitShiftRight(OperatorDesc):
    """Bits moved to lower places (DML_ELEMENT_WISE_BIT_SHIFT_RIGHT_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("the bits")
    b_tensor: TensorDesc = tensor_input("by how many places")
    output_tensor: TensorDesc = tensor_output("the shifted bits")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_BIT_SHIFT_RIGHT",
        pattern="elementwise",
        formula="a >> b, zeros coming in",
        decisions=("A shift by the width of the type or more gives 0: every bit was shifted out.",),
        in_place=(
            "a_tensor",
            "b_tensor",
        ),
        accuracy=EXACT,
        support=(
            Support("2_1", (4, 4), UNSIGNED_TO_32),
            Support("3_0", (1, 8), UNSIGNED_TO_32),
            Support("4_1", (1, 8), UNSIGNED_TO_64),
        ),
    )


class ElementWiseBitXor(OperatorDesc):
    """The bits that differ (DML_ELEMENT_WISE_BIT_XOR_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("left operand")
    b_tensor: TensorDesc = tensor_input("right operand")
    output_tensor: TensorDesc = tensor_output("their difference, bit by bit")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_BIT_XOR",
        pattern="elementwise",
        formula="a ^ b",
        in_place=(
            "a_tensor",
            "b_tensor",
        ),
        moves=("a_tensor", "b_tensor", "output_tensor"),
        accuracy=EXACT,
        support=_SUPPORT,
    )


__all__ = [
    "ElementWiseBitAnd",
    "ElementWiseBitCount",
    "ElementWiseBitNot",
    "ElementWiseBitOr",
    "ElementWiseBitShiftLeft",
    "ElementWiseBitShiftRight",
    "ElementWiseBitXor",
]
