"""The ELEMENT_WISE powers, exponentials, logarithms, ERF, hyperbolic and trigonometric functions, and inverses."""

from __future__ import annotations

from dmlvk.operators.words import *

POWER_DECISIONS = (
    "The special values are those of C's pow (ISO C, Annex F): x^0 and 1^e are 1, even of NaN; (-1)^(+-infinity) is 1; "
    "all else with NaN is NaN, and so is a finite x < 0 to a finite power that is no integer.",
    "0 and infinite x give 0 or infinity; so do infinite exponents where |x| is not 1. Results are below zero (or -0) "
    "where x is, -0 included, and the exponent is an odd integer. FLOAT32 numbers from 2^24 on are even.",
)
"""What holds for powers of floats."""


class ElementWiseAcosh(Scaled):
    """The inverse hyperbolic cosine of each element (DML_ELEMENT_WISE_ACOSH_OPERATOR_DESC)."""

    declaration: ClassVar = accurate(
        "acosh(x) = ln(x + sqrt(x * x - 1))",
        "What is below 1 gives NaN, -infinity too; 1 gives +0; infinity stays.",
        ulp=0.55,
        since="2_0",
        computes_with_denormals=True,
    )


class ElementWiseAsinh(Scaled):
    """The inverse hyperbolic sine of each element (DML_ELEMENT_WISE_ASINH_OPERATOR_DESC)."""

    declaration: ClassVar = accurate(
        "asinh(x) = ln(x + sqrt(x * x + 1))",
        "Both zeros and both infinities stay as they are; FLOAT32 denormals count as zeros of their sign.",
        ulp=0.55,
        since="2_0",
        computes_with_denormals=True,
    )


class ElementWiseAtanh(Scaled):
    """The inverse hyperbolic tangent of each element (DML_ELEMENT_WISE_ATANH_OPERATOR_DESC)."""

    declaration: ClassVar = accurate(
        "atanh(x) = ln((1 + x) / (1 - x)) / 2",
        "1 gives infinity and -1 -infinity, what lies beyond them NaN.",
        "Both zeros stay as they are; FLOAT32 denormals count as zeros of their sign.",
        ulp=0.55,
        since="2_0",
        computes_with_denormals=True,
    )


class ElementWiseConstantPow(Scaled):
    """Each element to one power (DML_ELEMENT_WISE_CONSTANT_POW_OPERATOR_DESC)."""

    exponent: float = float_attribute("the power that all are raised to")
    declaration: ClassVar = accurate(
        "pow(x, Exponent)",
        *POWER_DECISIONS,
        "Exponent is a FLOAT32 value in FLOAT16 operators too; a denormal counts as zero.",
        ulp=0.75,
        remark="for any Exponent",
        computes_with_denormals=True,
    )


class ElementWiseLog(Scaled):
    """The natural logarithm of each element (DML_ELEMENT_WISE_LOG_OPERATOR_DESC)."""

    declaration: ClassVar = accurate(
        "ln(x)",
        "Both zeros give -infinity, FLOAT32 denormals as well: they count as zeros of their sign.",
        "What is below zero gives NaN (the page says «indefinite»); ln(1) is +0.",
        ulp=0.9,
        computes_with_denormals=True,
    )


class ElementWisePow(OperatorDesc):
    """Each element to a power of its own (DML_ELEMENT_WISE_POW_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the bases")
    exponent_tensor: TensorDesc = tensor_input("the powers that they are raised to")
    output_tensor: TensorDesc = tensor_output("the powers, in the bases' data type")
    scale_bias: ScaleBias | None = scale_bias_attribute(
        "the base x becomes x * scale + bias first; None leaves it as it is", default=None
    )
    declaration: ClassVar = elementwise(
        "pow(x, e)",
        *POWER_DECISIONS,
        "Integer exponents of floats are the integers that they are, all 32 bits of them.",
        "Integer to integer: results wrap; x^0 is 1. A negative power is 1 / x^|e| truncated toward zero: 1 for "
        "x = 1, 1 or -1 for x = -1, else 0, also for x = 0, as integers divided by zero give 0.",
        "Integer to float: the true value truncated toward zero and saturated, NaN being 0; so 0 to a power below "
        "zero is the highest value. It is exact for integral exponents; what lies less than 2^-53 (relative) below "
        "an integer above 1 becomes that integer.",
        SCALE_BIAS_DECISION,
        same_data_type=(("input_tensor", "output_tensor"),),
        computes_with_denormals=True,
        accuracy=Accuracy("accurate", 0.75, "integers: exact", maximum_ulp_of_half=0.51),
        support=(
            Support("1_0", (4, 4), FLOATS, same_data_type=(("exponent_tensor", "input_tensor"),)),
            Support("3_0", (1, 8), TYPES_TO_32),
        ),
    )


class ElementWiseErf(Scaled):
    """The error function of each element (DML_ELEMENT_WISE_ERF_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their error functions, from -1 to 1")
    declaration: ClassVar = accurate(
        "erf(x), 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x",
        "Infinities give 1 of their sign, -0 gives -0.",
        ulp=0.85,
        since="2_0",
    )


class ElementWiseCosh(Scaled):
    """The hyperbolic cosine of each element (DML_ELEMENT_WISE_COSH_OPERATOR_DESC)."""

    declaration: ClassVar = accurate("cosh(x)", "Both infinities give infinity; NaN gives NaN.", ulp=0.75, since="2_0")


class ElementWiseExp(Scaled):
    """The exponential function of each element (DML_ELEMENT_WISE_EXP_OPERATOR_DESC)."""

    declaration: ClassVar = accurate(
        "e^x", "-infinity gives +0, infinity gives infinity; NaN gives NaN.", ulp=0.55, remark="measured: 0.54 ULP"
    )


class ElementWiseSinh(Scaled):
    """The hyperbolic sine of each element (DML_ELEMENT_WISE_SINH_OPERATOR_DESC)."""

    declaration: ClassVar = accurate(
        "sinh(x)", "Infinities stay as they are, and so do zeros; NaN gives NaN.", ulp=0.85, since="2_0"
    )


class ElementWiseTanh(Scaled):
    """The hyperbolic tangent of each element (DML_ELEMENT_WISE_TANH_OPERATOR_DESC)."""

    declaration: ClassVar = accurate(
        "tanh(x)",
        "Infinities give 1 with their sign, zeros stay as they are; NaN gives NaN.",
        ulp=0.75,
        remark="measured: 0.73 ULP",
        since="2_0",
    )


_EVERY_ANGLE_DECISION = "Angles are radians. Every finite one is reduced exactly, however large; infinities give NaN."


class ElementWiseAcos(Scaled):
    """The arccosine of each element (DML_ELEMENT_WISE_ACOS_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their arccosines, from 0 to pi")
    declaration: ClassVar = accurate("arccos(x)", "What is below -1 or above 1 gives NaN. acos(1) is +0.", ulp=0.85)


class ElementWiseAsin(Scaled):
    """The arcsine of each element (DML_ELEMENT_WISE_ASIN_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their arcsines, from -pi/2 to pi/2")
    declaration: ClassVar = accurate("arcsin(x)", "What is below -1 or above 1 gives NaN. -0 gives -0.", ulp=0.85)


class ElementWiseAtan(Scaled):
    """The arctangent of each element (DML_ELEMENT_WISE_ATAN_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their arctangents, from -pi/2 to pi/2")
    declaration: ClassVar = accurate("arctan(x)", "Infinities give pi/2 of their sign. -0 gives -0.", ulp=0.55)


class ElementWiseAtanYx(OperatorDesc):
    """The angle of each point of a plane (DML_ELEMENT_WISE_ATAN_YX_OPERATOR_DESC)."""

    a_tensor: TensorDesc = tensor_input("the points' y")
    b_tensor: TensorDesc = tensor_input("the points' x")
    output_tensor: TensorDesc = tensor_output("their angles from the x axis, from -pi to pi")
    declaration: ClassVar = elementwise(
        "arctan(y / x), in the quadrant of the point (x, y); y is of ATensor, x of BTensor",
        "The origin, which the page leaves undefined, zeros and infinities are as in C99's Annex F: "
        "(+-0, +0) gives +-0, (+-0, -0) gives +-pi, two infinities give +-pi/4 or +-3 pi/4.",
        in_place=BOTH,
        accuracy=Accuracy("accurate", 0.75, "largest found by search: 0.72 ULP", maximum_ulp_of_half=0.51),
        support=(Support("3_1", (1, 8), FLOATS),),
    )


class ElementWiseCos(Scaled):
    """The cosine of each element (DML_ELEMENT_WISE_COS_OPERATOR_DESC)."""

    declaration: ClassVar = accurate("cos(x)", _EVERY_ANGLE_DECISION, ulp=0.85)


class ElementWiseSin(Scaled):
    """The sine of each element (DML_ELEMENT_WISE_SIN_OPERATOR_DESC)."""

    declaration: ClassVar = accurate("sin(x)", _EVERY_ANGLE_DECISION, "-0 gives -0.", ulp=0.85)


class ElementWiseTan(Scaled):
    """The tangent of each element (DML_ELEMENT_WISE_TAN_OPERATOR_DESC)."""

    declaration: ClassVar = accurate("tan(x)", _EVERY_ANGLE_DECISION, "-0 gives -0.", ulp=0.55)
