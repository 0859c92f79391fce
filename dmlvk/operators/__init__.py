"""What every operator is: one declaration each, and the checks that follow from it."""

from dmlvk.operators.checks import check_operator
from dmlvk.operators.declaration import (
    OPERATORS,
    Accuracy,
    Declaration,
    Field,
    OperatorDesc,
    ScaleBias,
    Support,
    operator_desc,
)
from dmlvk.operators.elementwise import (
    ElementWiseIf,
    ElementWiseLogicalGreaterThan,
    ElementWiseSign,
    ElementWiseThreshold,
)
from dmlvk.operators.levels import FeatureLevel

__all__ = [
    "OPERATORS",
    "Accuracy",
    "Declaration",
    "ElementWiseIf",
    "ElementWiseLogicalGreaterThan",
    "ElementWiseSign",
    "ElementWiseThreshold",
    "FeatureLevel",
    "Field",
    "OperatorDesc",
    "ScaleBias",
    "Support",
    "check_operator",
    "operator_desc",
]
