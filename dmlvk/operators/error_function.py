"""The ELEMENT_WISE operators around the error function."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import ScaleBias, scale_bias_attribute, tensor_input, tensor_output
from dmlvk.operators.type_groups import DENORMALS_DECISION, FLOATS, SCALE_BIAS_DECISION
from dmlvk.tensors import TensorDesc


class ElementWiseErf(OperatorDesc):
    """The error function of each element (DML_ELEMENT_WISE_ERF_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("their error functions, from -1 to 1")
    scale_bias: ScaleBias | None = scale_bias_attribute(default=None)

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_ERF",
        pattern="elementwise",
        formula="erf(x), 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x",
        decisions=("Infinities give 1 of their sign, -0 gives -0.", DENORMALS_DECISION, SCALE_BIAS_DECISION),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.85),
        support=(
            Support("2_0", (4, 4), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )


__all__ = ["ElementWiseErf"]
