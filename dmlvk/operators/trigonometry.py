"""The ELEMENT_WISE operators of angles: trigonometric functions and their inverses."""

from __future__ import annotations

from typing import ClassVar

from dmlvk.operators.bases import BOTH, Scaled, accurate, elementwise
from dmlvk.operators.declaration import Accuracy, OperatorDesc, Support
from dmlvk.operators.members import tensor_input, tensor_output
from dmlvk.operators.type_groups import DENORMALS_DECISION, FLOATS
from dmlvk.tensors import TensorDesc

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
        DENORMALS_DECISION,
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


__all__ = [
    "ElementWiseAcos",
    "ElementWiseAsin",
    "ElementWiseAtan",
    "ElementWiseAtanYx",
    "ElementWiseCos",
    "ElementWiseSin",
    "ElementWiseTan",
]
