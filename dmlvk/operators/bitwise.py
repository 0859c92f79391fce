"""The ELEMENT_WISE operators on the bits of elements, whatever their data type."""

from __future__ import annotations

from dmlvk.operators.words import *

_SUPPORT = (Support("3_0", (1, 8), UNSIGNED_TO_32), Support("4_1", (1, 8), ALL_TYPES))


_SHIFT_SUPPORT = (
    Support("2_1", (4, 4), UNSIGNED_TO_32),
    Support("3_0", (1, 8), UNSIGNED_TO_32),
    Support("4_1", (1, 8), UNSIGNED_TO_64),
)


class ElementWiseBitAnd(TwoInputs):
    """The bits that are 1 in both operands (DML_ELEMENT_WISE_BIT_AND_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their conjunction, bit by bit")
    declaration: ClassVar = elementwise(
        "a & b", in_place=BOTH, moves=("a_tensor", "b_tensor", "output_tensor"), support=_SUPPORT
    )


class ElementWiseBitCount(OneInput):
    """How many bits are 1 (DML_ELEMENT_WISE_BIT_COUNT_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their number, from 0 to the width of the input type")
    declaration: ClassVar = elementwise(
        "number of bits of x that are 1",
        in_place=(),
        same_data_type=(),
        moves=("input_tensor",),
        support=(
            Support("3_0", (1, 8), UNSIGNED_TO_32, output_tensor=BOOLEANS),
            Support("4_1", (1, 8), ALL_TYPES, output_tensor=BOOLEANS),
        ),
    )


class ElementWiseBitNot(OneInput):
    """Every bit inverted (DML_ELEMENT_WISE_BIT_NOT_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "~x",
        moves=("input_tensor", "output_tensor"),
        support=(Support("3_0", (1, 8), UNSIGNED_TO_32), Support("4_1", (1, 8), ALL_TYPES)),
    )


class ElementWiseBitOr(TwoInputs):
    """The bits that are 1 in one operand at least (DML_ELEMENT_WISE_BIT_OR_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their disjunction, bit by bit")
    declaration: ClassVar = elementwise(
        "a | b", in_place=BOTH, moves=("a_tensor", "b_tensor", "output_tensor"), support=_SUPPORT
    )


class ElementWiseBitShiftLeft(OperatorDesc):
    """Bits moved to higher places (DML_ELEMENT_WISE_BIT_SHIFT_LEFT_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("the bits")
    b_tensor: TensorDesc = tensor_input("by how many places")
    output_tensor: TensorDesc = tensor_output("the shifted bits")
    declaration: ClassVar = elementwise(
        "a << b, zeros coming in",
        "A shift by the width of the type or more gives 0: every bit was shifted out.",
        in_place=BOTH,
        support=_SHIFT_SUPPORT,
    )


class ElementWiseBitShiftRight(OperatorDesc):
    """Bits moved to lower places (DML_ELEMENT_WISE_BIT_SHIFT_RIGHT_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("the bits")
    b_tensor: TensorDesc = tensor_input("by how many places")
    output_tensor: TensorDesc = tensor_output("the shifted bits")
    declaration: ClassVar = elementwise(
        "a >> b, zeros coming in",
        "A shift by the width of the type or more gives 0: every bit was shifted out.",
        in_place=BOTH,
        support=_SHIFT_SUPPORT,
    )


class ElementWiseBitXor(TwoInputs):
    """The bits that differ (DML_ELEMENT_WISE_BIT_XOR_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their difference, bit by bit")
    declaration: ClassVar = elementwise(
        "a ^ b", in_place=BOTH, moves=("a_tensor", "b_tensor", "output_tensor"), support=_SUPPORT
    )
