"""The ELEMENT_WISE operators around the exponential function."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.declaration import Accuracy, Declaration, OperatorDesc, Support
from dmlvk.operators.members import ScaleBias, scale_bias_attribute, tensor_input, tensor_output
from dmlvk.operators.type_groups import FLOATS, SCALE_BIAS_DECISION
from dmlvk.tensors import TensorDesc


class ElementWiseExp(OperatorDesc):
    """The exponential function of each element (DML_ELEMENT_WISE_EXP_OPERATOR_DESC)."""

    input_tensor: TensorDesc = tensor_input("the values")
    output_tensor: TensorDesc = tensor_output("e to their power")
    scale_bias: ScaleBias | None = scale_bias_attribute(
        "x becomes x * scale + bias first; None leaves x as it is", default=None
    )

    declaration: ClassVar = Declaration(
        name="ELEMENT_WISE_EXP",
        formula="e^x",
        decisions=(
            "-infinity gives +0, infinity gives infinity, NaN gives the canonical quiet NaN.",
            SCALE_BIAS_DECISION,
        ),
        in_place=("input_tensor",),
        accuracy=Accuracy("accurate", 0.55),
        support=(
            Support("1_0", (4, 4), FLOATS),
            Support("3_0", (1, 8), FLOATS),
        ),
    )
