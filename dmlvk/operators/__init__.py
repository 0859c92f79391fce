"""What every operator is: one declaration each, and the checks that follow from it."""

from dmlvk.operators import families
from dmlvk.operators.block_weights import DequantizeBlocks
from dmlvk.operators.cast import ElementWiseRoundBfloat16
from dmlvk.operators.checks import check_operator
from dmlvk.operators.declaration import (
    OPERATORS,
    OWN_OPERATORS,
    Accuracy,
    DataTypeRule,
    Declaration,
    OperatorDesc,
    Support,
)
from dmlvk.operators.expert_products import ExpertProducts
from dmlvk.operators.families import *  # the families say what they export
from dmlvk.operators.fusion import FUSABLE_ACTIVATIONS, FusedActivation
from dmlvk.operators.levels import FeatureLevel
from dmlvk.operators.linear_attention import LinearAttention
from dmlvk.operators.members import Field, IsInfinityMode, RoundingMode, ScaleBias, Size2D, accepts_data_type
from dmlvk.operators.naming import fused_activation, operator_desc, operators_named

__all__ = [
    "OPERATORS", "OWN_OPERATORS", "ElementWiseRoundBfloat16", "REGULAR_OPERATORS", "Accuracy", "DataTypeRule",
    "Declaration", "DequantizeBlocks", "ExpertProducts", "FUSABLE_ACTIVATIONS", "FeatureLevel", "Field",
    "FusedActivation", "IsInfinityMode", "LinearAttention", "OperatorDesc", "RoundingMode", "ScaleBias", "Size2D",
    "Support", "accepts_data_type", "check_operator", "fused_activation", "operator_desc", "operators_named",
]  # fmt: skip
__all__ += [name for name in vars(families) if not name.startswith("_")]

REGULAR_OPERATORS = {name: kind for name, kind in OPERATORS.items() if kind.declaration.is_regular}
"""Those operators whose results correspond to their operands element by element, or row by row."""
