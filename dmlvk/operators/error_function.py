"""The ELEMENT_WISE operators around the error function."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.bases import Scaled, accurate
from dmlvk.operators.members import tensor_output
from dmlvk.tensors import TensorDesc


class ElementWiseErf(Scaled):
    """The error function of each element (DML_ELEMENT_WISE_ERF_OPERATOR_DESC)."""

    output_tensor: TensorDesc = tensor_output("their error functions, from -1 to 1")
    declaration: ClassVar = accurate(
        "erf(x), 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x",
        "Infinities give 1 of their sign, -0 gives -0.",
        ulp=0.85,
        since="2_0",
    )


__all__ = ["ElementWiseErf"]
