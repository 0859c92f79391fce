"""The ELEMENT_WISE operators around the exponential function: itself and the hyperbolic functions made of it."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import ScaleBias, scale_bias_attribute, tensor_input, tensor_output
from dmlvk.operators.type_groups import DENORMALS_DECISION, FLOATS, SCALE_BIAS_DECISION
from dmlvk.tensors import TensorDesc

_SUPPORT_SINCE_2_0 = (
    Support("2_0", (4, 4), FLOATS),
    Support("3_0", (1, 8), FLOATS),
)


class ElementWiseCosh(OperatorDesc):
    """The hyperbolic cosine of each element (DML_ELEMENT_WISE_COSH_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their hyperbolic cosines")
    scale_bias: ScaleBias | None = scale_bias_attribute(default=None)

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_COSH",
        pattern="elementwise",
        formula="cosh(x)",
        decisions=(
            "Both infinities give infinity; NaN gives NaN.",
            DENORMALS_DECISION,
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.75),
        support=_SUPPORT_SINCE_2_0,
    )


class ElementWiseExp(OperatorDesc):
    """The exponential function of each element (DML_ELEMENT_WISE_EXP_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("e to their power")
    scale_bias: ScaleBias | None = scale_bias_attribute(default=None)

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_EXP",
        pattern="elementwise",
        formula="e^x",
        decisions=(
            "-infinity gives +0, infinity gives infinity; NaN gives NaN.",
            DENORMALS_DECISION,
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.55, "measured: 0.54 ULP"),
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


class ElementWiseSinh(OperatorDesc):
    """The hyperbolic sine of each element (DML_ELEMENT_WISE_SINH_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their hyperbolic sines")
    scale_bias: ScaleBias | None = scale_bias_attribute(default=None)

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_SINH",
        pattern="elementwise",
        formula="sinh(x)",
        decisions=(
            "Infinities stay as they are, and so do zeros; NaN gives NaN.",
            DENORMALS_DECISION,
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.85),
        support=_SUPPORT_SINCE_2_0,
    )


class ElementWiseTanh(OperatorDesc):
    """The hyperbolic tangent of each element (DML_ELEMENT_WISE_TANH_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their hyperbolic tangents")
    scale_bias: ScaleBias | None = scale_bias_attribute(default=None)

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_TANH",
        pattern="elementwise",
        formula="tanh(x)",
        decisions=(
            "Infinities give 1 with their sign, zeros stay as they are; NaN gives NaN.",
            DENORMALS_DECISION,
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.75, "measured: 0.73 ULP"),
        support=_SUPPORT_SINCE_2_0,
    )


__all__ = ["ElementWiseCosh", "ElementWiseExp", "ElementWiseSinh", "ElementWiseTanh"]
