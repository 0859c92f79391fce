"""The ELEMENT_WISE operators around the exponential function: itself and the hyperbolic functions made of it."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.bases import Scaled, elementwise
from dmlvk.operators.declaration import Accuracy, Support
from dmlvk.operators.members import tensor_output
from dmlvk.operators.type_groups import DENORMALS_DECISION, FLOATS, SCALE_BIAS_DECISION
from dmlvk.tensors import TensorDesc

_SUPPORT_SINCE_2_0 = (Support("2_0", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS))


class ElementWiseCosh(Scaled):
    """The hyperbolic cosine of each element (DML_ELEMENT_WISE_COSH_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their hyperbolic cosines")
    declaration: ClassVar = elementwise(
        "cosh(x)",
        "Both infinities give infinity; NaN gives NaN.",
        DENORMALS_DECISION,
        SCALE_BIAS_DECISION,
        accuracy=Accuracy("accurate", 0.75),
        support=_SUPPORT_SINCE_2_0,
    )


class ElementWiseExp(Scaled):
    """The exponential function of each element (DML_ELEMENT_WISE_EXP_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("e to their power")
    declaration: ClassVar = elementwise(
        "e^x",
        "-infinity gives +0, infinity gives infinity; NaN gives NaN.",
        DENORMALS_DECISION,
        SCALE_BIAS_DECISION,
        accuracy=Accuracy("accurate", 0.55, "measured: 0.54 ULP"),
        support=(Support("1_0", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


class ElementWiseSinh(Scaled):
    """The hyperbolic sine of each element (DML_ELEMENT_WISE_SINH_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their hyperbolic sines")
    declaration: ClassVar = elementwise(
        "sinh(x)",
        "Infinities stay as they are, and so do zeros; NaN gives NaN.",
        DENORMALS_DECISION,
        SCALE_BIAS_DECISION,
        accuracy=Accuracy("accurate", 0.85),
        support=_SUPPORT_SINCE_2_0,
    )


class ElementWiseTanh(Scaled):
    """The hyperbolic tangent of each element (DML_ELEMENT_WISE_TANH_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their hyperbolic tangents")
    declaration: ClassVar = elementwise(
        "tanh(x)",
        "Infinities give 1 with their sign, zeros stay as they are; NaN gives NaN.",
        DENORMALS_DECISION,
        SCALE_BIAS_DECISION,
        accuracy=Accuracy("accurate", 0.75, "measured: 0.73 ULP"),
        support=_SUPPORT_SINCE_2_0,
    )


__all__ = ["ElementWiseCosh", "ElementWiseExp", "ElementWiseSinh", "ElementWiseTanh"]
