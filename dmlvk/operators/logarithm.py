"""The ELEMENT_WISE operators around logarithms and powers."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.bases import Scaled, accurate, elementwise
from dmlvk.operators.declaration import Accuracy, OperatorDesc, Support
from dmlvk.operators.members import ScaleBias, float_attribute, scale_bias_attribute, tensor_input, tensor_output
from dmlvk.operators.type_groups import FLOATS, SCALE_BIAS_DECISION, TYPES_TO_32
from dmlvk.tensors import TensorDesc

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
        accuracy=Accuracy("accurate", 0.75, "integers: exact", maximum_ulp_of_half=0.51),
        support=(
            Support("1_0", (4, 4), FLOATS, same_data_type=(("exponent_tensor", "input_tensor"),)),
            Support("3_0", (1, 8), TYPES_TO_32),
        ),
    )


__all__ = [
    "ElementWiseAcosh",
    "ElementWiseAsinh",
    "ElementWiseAtanh",
    "ElementWiseConstantPow",
    "ElementWiseLog",
    "ElementWisePow",
]
