"""The ELEMENT_WISE operators of arithmetic: sums, differences, products, quotients, remainders, roots."""

from __future__ import annotations

from dmlvk.operators.words import *

_INTEGERS_WRAP = "Integers wrap: what does not fit into the data type is dropped from above."
_SIGN = ("a_tensor",)  # It makes no difference where integers wrap


_SUM_SUPPORT = (
    Support("1_0", (4, 5), FLOATS),
    Support("2_1", (4, 5), FLOATS_AND_WORDS),
    Support("3_0", (1, 8), FLOATS_AND_WORDS),
    Support("4_1", (1, 8), FLOATS_WORDS_AND_PAIRS),
    Support("5_1", (1, 8), TYPES_TO_64),
)
_REMAINDER_SUPPORT = (
    Support("2_1", (4, 4), TYPES_TO_32),
    Support("3_0", (1, 8), TYPES_TO_32),
    Support("6_0", (1, 8), TYPES_TO_64),
)


class ElementWiseAdd(TwoInputs):
    """The sum of two tensors (DML_ELEMENT_WISE_ADD_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "a + b", _INTEGERS_WRAP, in_place=BOTH, signs=_SIGN, accuracy=CORRECTLY_ROUNDED, support=_SUM_SUPPORT
    )


class ElementWiseAdd1(TwoInputs):
    """The sum of two tensors, with a fused activation (DML_ELEMENT_WISE_ADD1_OPERATOR_DESC)."""

    fused_activation: FusedActivation | None = fused_activation_attribute("the activation to apply to the sums")
    declaration: ClassVar = elementwise(
        "FusedActivation(a + b)",
        "The result has the bits that ELEMENT_WISE_ADD followed by the activation gives: the sum is rounded to the "
        "tensors' data type, and the activation's promise holds for that sum.",
        "A fused activation needs the feature level that the activation itself needs, and its attributes obey the "
        "same rules. Activations outside DirectML's list, HARD_SWISH, PARAMETERIZED_RELU and SOFTMAX among them, "
        "are refused.",
        in_place=BOTH,
        computed_as="ELEMENT_WISE_ADD",
        accuracy=Accuracy("correctly rounded", 0.5, "with a fused activation: what that activation promises"),
        support=(Support("2_0", (4, 5), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


class ElementWiseDifferenceSquare(TwoInputs):
    """The square of the difference of two tensors (DML_ELEMENT_WISE_DIFFERENCE_SQUARE_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "(a - b) * (a - b)",
        "FLOAT32: the difference is rounded, then its square. FLOAT16: the exact square of the exact difference is "
        "rounded once.",
        _INTEGERS_WRAP,
        in_place=BOTH,
        signs=_SIGN,
        accuracy=Accuracy(
            "correctly rounded", 0.5, "FLOAT32: each of the two steps, which leaves the result within 2 ULP"
        ),
        support=(Support("3_1", (1, 8), FLOATS_AND_WORDS),),
    )


class ElementWiseDivide(OperatorDesc):
    """The quotient of two tensors (DML_ELEMENT_WISE_DIVIDE_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("what is divided")
    b_tensor: TensorDesc = tensor_input("by what it is divided")
    output_tensor: TensorDesc = tensor_output("the quotients")
    declaration: ClassVar = elementwise(
        "a / b; of integers truncated toward zero",
        "Integers divided by zero give 0. The most negative integer divided by -1 wraps: it stays as it is.",
        "Floats divided by zero give an infinity, or NaN for zero and NaN; the sign is that of the product.",
        in_place=BOTH,
        accuracy=CORRECTLY_ROUNDED,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), FLOATS_AND_WORDS),
            Support("3_0", (1, 8), FLOATS_AND_WORDS),
            Support("5_1", (1, 8), TYPES_TO_32),
            Support("6_0", (1, 8), TYPES_TO_64),
        ),
    )


class ElementWiseMean(TwoInputs):
    """The mean of two tensors, element by element (DML_ELEMENT_WISE_MEAN_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "(a + b) / 2",
        "The sum neither overflows nor wraps. Floats: the exact mean is rounded once. Integers: it is truncated "
        "toward zero, as by DIVIDE.",
        in_place=BOTH,
        accuracy=CORRECTLY_ROUNDED,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), FLOATS_AND_WORDS),
            Support("3_0", (1, 8), FLOATS_AND_WORDS),
        ),
    )


class ElementWiseModulusFloor(OperatorDesc):
    """The remainder of a floored division (DML_ELEMENT_WISE_MODULUS_FLOOR_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("what is divided")
    b_tensor: TensorDesc = tensor_input("by what it is divided")
    output_tensor: TensorDesc = tensor_output("the remainders, of the sign of b")
    declaration: ClassVar = elementwise(
        "a - b * floor(a / b)",
        "The quotient is the exact one, however large: the result is Python's a % b. Only where it is the sum of a "
        "small a and b of the other sign does it have to be rounded.",
        "A zero has the sign of b. Floats: NaN where b is zero or a is infinite; where b is infinite and a is not, "
        "a result of the sign of b: a itself, or b.",
        "Integers modulo zero give 0.",
        in_place=BOTH,
        accuracy=CORRECTLY_ROUNDED,
        support=_REMAINDER_SUPPORT,
    )


class ElementWiseModulusTruncate(OperatorDesc):
    """The remainder of a truncated division (DML_ELEMENT_WISE_MODULUS_TRUNCATE_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("what is divided")
    b_tensor: TensorDesc = tensor_input("by what it is divided")
    output_tensor: TensorDesc = tensor_output("the remainders, of the sign of a")
    declaration: ClassVar = elementwise(
        "a - b * trunc(a / b)",
        "The quotient is the exact one, however large: the result is that of C's % and fmod, and exact.",
        "A zero has the sign of a. Floats: NaN where b is zero or a is infinite; else a where b is infinite.",
        "Integers modulo zero give 0.",
        in_place=BOTH,
        accuracy=CORRECTLY_ROUNDED,
        support=_REMAINDER_SUPPORT,
    )


class ElementWiseMultiply(TwoInputs):
    """The product of two tensors (DML_ELEMENT_WISE_MULTIPLY_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "a * b", _INTEGERS_WRAP, in_place=BOTH, signs=_SIGN, accuracy=CORRECTLY_ROUNDED, support=_SUM_SUPPORT
    )


class ElementWiseRecip(Scaled):
    """The reciprocal of each element (DML_ELEMENT_WISE_RECIP_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "1 / x",
        "A zero gives the infinity of its sign, an infinity the zero of its sign.",
        SCALE_BIAS_DECISION,
        accuracy=CORRECTLY_ROUNDED_AFTER_SCALE_BIAS,
        support=(Support("1_0", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


class ElementWiseSqrt(Scaled):
    """The square root of each element (DML_ELEMENT_WISE_SQRT_OPERATOR_DESC)."""

    declaration: ClassVar = elementwise(
        "sqrt(x)",
        "Below zero NaN; -0 gives -0.",
        SCALE_BIAS_DECISION,
        accuracy=CORRECTLY_ROUNDED_AFTER_SCALE_BIAS,
        support=(Support("1_0", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


class ElementWiseSubtract(OperatorDesc):
    """The difference of two tensors (DML_ELEMENT_WISE_SUBTRACT_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("what is subtracted from")
    b_tensor: TensorDesc = tensor_input("what is subtracted")
    output_tensor: TensorDesc = tensor_output("the differences")
    declaration: ClassVar = elementwise(
        "a - b",
        _INTEGERS_WRAP,
        in_place=BOTH,
        signs=_SIGN,
        accuracy=CORRECTLY_ROUNDED,
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("2_1", (4, 4), FLOATS_AND_WORDS),
            Support("3_0", (1, 8), FLOATS_AND_WORDS),
            Support("4_1", (1, 8), FLOATS_WORDS_AND_PAIRS),
            Support("5_1", (1, 8), TYPES_TO_64),
        ),
    )
