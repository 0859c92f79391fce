"""The ELEMENT_WISE operators around logarithms and powers."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import ScaleBias, scale_bias_attribute, tensor_input, tensor_output
from dmlvk.operators.type_groups import FLOATS, SCALE_BIAS_DECISION
from dmlvk.tensors import TensorDesc


class ElementWiseAcosh(OperatorDesc):
    """The inverse hyperbolic cosine of each element (DML_ELEMENT_WISE_ACOSH_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their inverse hyperbolic cosines")
    scale_bias: ScaleBias | None = scale_bias_attribute(
        "x becomes x * scale + bias first; None leaves x as it is", default=None
    )

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_ACOSH",
        formula="acosh(x) = ln(x + sqrt(x * x - 1))",
        decisions=(
            "What is below 1 gives NaN, -infinity too; 1 gives +0; infinity stays.",
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.6),
        support=(
            Support("2_0", (4, 4), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


class ElementWiseAsinh(OperatorDesc):
    """The inverse hyperbolic sine of each element (DML_ELEMENT_WISE_ASINH_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their inverse hyperbolic sines")
    scale_bias: ScaleBias | None = scale_bias_attribute(
        "x becomes x * scale + bias first; None leaves x as it is", default=None
    )

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_ASINH",
        formula="asinh(x) = ln(x + sqrt(x * x + 1))",
        decisions=(
            "Both zeros and both infinities stay as they are; FLOAT32 denormals count as zeros of their sign.",
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.6),
        support=(
            Support("2_0", (4, 4), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


class ElementWiseAtanh(OperatorDesc):
    """The inverse hyperbolic tangent of each element (DML_ELEMENT_WISE_ATANH_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their inverse hyperbolic tangents")
    scale_bias: ScaleBias | None = scale_bias_attribute(
        "x becomes x * scale + bias first; None leaves x as it is", default=None
    )

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_ATANH",
        formula="atanh(x) = ln((1 + x) / (1 - x)) / 2",
        decisions=(
            "1 gives infinity and -1 -infinity, what lies beyond them NaN.",
            "Both zeros stay as they are; FLOAT32 denormals count as zeros of their sign.",
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.6),
        support=(
            Support("2_0", (4, 4), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


class ElementWiseLog(OperatorDesc):
    """The natural logarithm of each element (DML_ELEMENT_WISE_LOG_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their natural logarithms")
    scale_bias: ScaleBias | None = scale_bias_attribute(
        "x becomes x * scale + bias first; None leaves x as it is", default=None
    )

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_LOG",
        formula="ln(x)",
        decisions=(
            "Both zeros give -infinity, FLOAT32 denormals as well: they count as zeros of their sign.",
            "What is below zero gives NaN (the page says «indefinite»); ln(1) is +0.",
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.6),
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )
