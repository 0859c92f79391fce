"""The ELEMENT_WISE operators around the error function."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.bases import Scaled, elementwise
from dmlvk.operators.declaration import Accuracy, Support
from dmlvk.operators.members import tensor_output
from dmlvk.operators.type_groups import DENORMALS_DECISION, FLOATS, SCALE_BIAS_DECISION
from dmlvk.tensors import TensorDesc


class ElementWiseErf(Scaled):
    """The error function of each element (DML_ELEMENT_WISE_ERF_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their error functions, from -1 to 1")
    declaration: ClassVar = elementwise(
        "erf(x), 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x",
        "Infinities give 1 of their sign, -0 gives -0.",
        DENORMALS_DECISION,
        SCALE_BIAS_DECISION,
        accuracy=Accuracy("accurate", 0.85),
        support=(Support("2_0", (4, 4), FLOATS), Support("3_0", (1, 8), FLOATS)),
    )


__all__ = ["ElementWiseErf"]
