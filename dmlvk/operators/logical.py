"""The ELEMENT_WISE operators that answer yes or no, as 1 or 0."""

from __future__ import annotations

from dmlvk.operators.words import *

_BOOLEAN_SUPPORT = (
    Support("1_0", (4, 4), (DataType.UINT32,)),
    Support("2_0", (4, 4), BOOLEANS),
    Support("3_0", (1, 8), BOOLEANS),
)

_COMPARISON_SUPPORT = (
    Support("1_0", (4, 4), FLOATS, output_tensor=(DataType.UINT32,)),
    Support("2_0", (4, 4), FLOATS, output_tensor=BOOLEANS),
    Support("2_1", (4, 4), TYPES_TO_32, output_tensor=BOOLEANS),
    Support("3_0", (1, 8), TYPES_TO_32, output_tensor=BOOLEANS),
    Support("4_1", (1, 8), TYPES_TO_64, output_tensor=BOOLEANS),
)


_LATE_COMPARISON_SUPPORT = (
    Support("3_0", (1, 8), TYPES_TO_32, output_tensor=BOOLEANS),
    Support("4_1", (1, 8), TYPES_TO_64, output_tensor=BOOLEANS),
)


def _comparison(formula: str, support: tuple[Support, ...] = _COMPARISON_SUPPORT) -> Declaration:
    return elementwise(
        formula,
        "A comparison with NaN is false.",
        "Both zeros are equal, and denormals are the numbers they are.",
        in_place=(),
        same_data_type=(("a_tensor", "b_tensor"),),
        signs=("a_tensor",),
        support=support,
        computed_as="ELEMENT_WISE_LOGICAL_EQUALS",
    )


class ElementWiseLogicalAnd(TwoInputs):
    """Whether both operands are not zero (DML_ELEMENT_WISE_LOGICAL_AND_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise("1 if a and b, else 0", in_place=BOTH, support=_BOOLEAN_SUPPORT)


class ElementWiseLogicalEquals(TwoInputs):
    """Compares two tensors (DML_ELEMENT_WISE_LOGICAL_EQUALS_OPERATOR_DESC)."""

    declaration: ClassVar = _comparison("1 if a == b, else 0")


class ElementWiseLogicalGreaterThan(TwoInputs):
    """Compares two tensors (DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OPERATOR_DESC)."""

    declaration: ClassVar = _comparison("1 if a > b, else 0")


class ElementWiseLogicalGreaterThanOrEqual(TwoInputs):
    """Compares two tensors (DML_ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL_OPERATOR_DESC)."""

    declaration: ClassVar = _comparison("1 if a >= b, else 0", _LATE_COMPARISON_SUPPORT)


class ElementWiseLogicalLessThan(TwoInputs):
    """Compares two tensors (DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OPERATOR_DESC)."""

    declaration: ClassVar = _comparison("1 if a < b, else 0")


class ElementWiseLogicalLessThanOrEqual(TwoInputs):
    """Compares two tensors (DML_ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL_OPERATOR_DESC)."""

    declaration: ClassVar = _comparison("1 if a <= b, else 0", _LATE_COMPARISON_SUPPORT)


class ElementWiseLogicalNot(OneInput):
    """Whether an element is zero (DML_ELEMENT_WISE_LOGICAL_NOT_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "1 if x == 0, else 0",
        support=(
            Support("1_0", (4, 4), (DataType.UINT32,)),
            Support("2_0", (4, 4), BOOLEANS),
            Support("3_0", (1, 8), BOOLEANS),
        ),
    )


class ElementWiseLogicalOr(TwoInputs):
    """Whether one operand at least is not zero (DML_ELEMENT_WISE_LOGICAL_OR_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise("1 if a or b, else 0", in_place=BOTH, support=_BOOLEAN_SUPPORT)


class ElementWiseLogicalXor(TwoInputs):
    """Whether exactly one operand is not zero (DML_ELEMENT_WISE_LOGICAL_XOR_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise("1 if (a != 0) != (b != 0), else 0", in_place=BOTH, support=_BOOLEAN_SUPPORT)


class ElementWiseIsInfinity(OneInput):
    """Finds infinities (DML_ELEMENT_WISE_IS_INFINITY_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("1 where there is such an infinity, else 0")
    infinity_mode: IsInfinityMode = enum_attribute("which infinities count", IsInfinityMode)
    declaration: ClassVar = elementwise(
        "1 if x is infinite and of the sign that InfinityMode asks for, else 0",
        in_place=(),
        same_data_type=(),
        support=(
            Support("2_1", (4, 4), FLOATS, output_tensor=(DataType.UINT8,)),
            Support("3_0", (1, 8), FLOATS, output_tensor=(DataType.UINT8,)),
        ),
    )


class ElementWiseIsNan(OneInput):
    """Finds NaN (DML_ELEMENT_WISE_IS_NAN_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("1 where there is a NaN, else 0")
    declaration: ClassVar = elementwise(
        "1 if x is NaN, else 0",
        in_place=(),
        same_data_type=(),
        support=(
            Support("2_0", (4, 4), FLOATS, output_tensor=BOOLEANS),
            Support("3_0", (1, 8), FLOATS, output_tensor=BOOLEANS),
        ),
    )
