"""The ELEMENT_WISE operators of arithmetic: sums, differences, products."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.declaration import Declaration, OperatorDesc, Support
from dmlvk.operators.members import tensor_input, tensor_output
from dmlvk.operators.type_groups import (
    CORRECTLY_ROUNDED,
    DENORMALS_DECISION,
    FLOATS,
    FLOATS_AND_WORDS,
    FLOATS_WORDS_AND_PAIRS,
    TYPES_TO_64,
)
from dmlvk.tensors import TensorDesc

_INTEGERS_WRAP = "Integers wrap: what does not fit into the data type is dropped from above."


class ElementWiseAdd(OperatorDesc):
    """The sum of two tensors (DML_ELEMENT_WISE_ADD_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("left operand")
    b_tensor: TensorDesc = tensor_input("right operand")
    output_tensor: TensorDesc = tensor_output("the sums")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_ADD",
        formula="a + b",
        decisions=(DENORMALS_DECISION, _INTEGERS_WRAP),
        in_place=("a_tensor", "b_tensor"),
        accuracy=CORRECTLY_ROUNDED,
        support=(
            Support("1_0", (4, 5), FLOATS),
            Support("2_1", (4, 5), FLOATS_AND_WORDS),
            Support("3_0", (1, 8), FLOATS_AND_WORDS),
            Support("4_1", (1, 8), FLOATS_WORDS_AND_PAIRS),
            Support("5_1", (1, 8), TYPES_TO_64),
        ),
    )


class ElementWiseMultiply(OperatorDesc):
    """The product of two tensors (DML_ELEMENT_WISE_MULTIPLY_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("left operand")
    b_tensor: TensorDesc = tensor_input("right operand")
    output_tensor: TensorDesc = tensor_output("the products")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_MULTIPLY",
        formula="a * b",
        decisions=(DENORMALS_DECISION, _INTEGERS_WRAP),
        in_place=("a_tensor", "b_tensor"),
        accuracy=CORRECTLY_ROUNDED,
        support=(
            Support("1_0", (4, 5), FLOATS),
            Support("2_1", (4, 5), FLOATS_AND_WORDS),
            Support("3_0", (1, 8), FLOATS_AND_WORDS),
            Support("4_1", (1, 8), FLOATS_WORDS_AND_PAIRS),
            Support("5_1", (1, 8), TYPES_TO_64),
        ),
    )


class ElementWiseSubtract(OperatorDesc):
    """The difference of two tensors (DML_ELEMENT_WISE_SUBTRACT_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("what is subtracted from")
    b_tensor: TensorDesc = tensor_input("what is subtracted")
    output_tensor: TensorDesc = tensor_output("the differences")

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_SUBTRACT",
        formula="a - b",
        decisions=(DENORMALS_DECISION, _INTEGERS_WRAP),
        in_place=("a_tensor", "b_tensor"),
        accuracy=CORRECTLY_ROUNDED,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), FLOATS_AND_WORDS),
            Support("3_0", (1, 8), FLOATS_AND_WORDS),
            Support("4_1", (1, 8), FLOATS_WORDS_AND_PAIRS),
            Support("5_1", (1, 8), TYPES_TO_64),
        ),
    )
