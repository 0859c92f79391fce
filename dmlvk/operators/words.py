"""The words that declarations of operators are made of, for ``from dmlvk.operators.words import *``."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dmlvk.datatypes import DataType
from dmlvk.operators.bases import BOTH, AlongAxes, OneGradient, OneInput, Scaled, TwoInputs, accurate, elementwise
from dmlvk.operators.declaration import Accuracy, DataTypeRule, Declaration, OperatorDesc, Support, TypeChoice
from dmlvk.operators.fusion import (
    FUSABLE_ACTIVATIONS,
    FusedActivation,
    activations_attribute,
    fused_activation_attribute,
)
from dmlvk.operators.levels import FeatureLevel
from dmlvk.operators.members import (
    AxisDirection,
    IsInfinityMode,
    Minimum,
    QuantizationType,
    ReduceFunction,
    RoundingMode,
    ScaleBias,
    Size2D,
    axes_attribute,
    boolean_attribute,
    count_attribute,
    data_type_attribute,
    directml_name,
    enum_attribute,
    float_array_attribute,
    float_attribute,
    integer_array_attribute,
    integer_attribute,
    scalar_union_attribute,
    scale_bias_attribute,
    size_attribute,
    tensor_array_input,
    tensor_array_output,
    tensor_input,
    tensor_output,
    unsigned_array_attribute,
    unsigned_attribute,
)
from dmlvk.operators.shapes import (
    Described,
    Draft,
    Sizes,
    WithCount,
    WithInput,
    WithWindows,
    check_axis,
    check_dimension_count,
    check_length,
    check_sizes,
    member_text,
    refuse,
    tensor_of,
)
from dmlvk.operators.type_groups import (
    ALL_TYPES,
    BOOLEANS,
    CORRECTLY_ROUNDED,
    CORRECTLY_ROUNDED_AFTER_SCALE_BIAS,
    DENORMALS_DECISION,
    EXACT_AFTER_SCALE_BIAS,
    FLOAT_ATTRIBUTES_DECISION,
    FLOATS,
    FLOATS_AND_WORDS,
    FLOATS_WORDS_AND_PAIRS,
    SCALE_BIAS_DECISION,
    SIGNED_TO_32,
    SIGNED_TO_64,
    TYPES_TO_32,
    TYPES_TO_64,
    UNSIGNED_TO_32,
    UNSIGNED_TO_64,
)
from dmlvk.tensors import TensorDesc, TensorFlags

__all__ = [
    "Accuracy", "accurate", "activations_attribute", "ALL_TYPES", "AlongAxes", "Any", "axes_attribute",
    "AxisDirection", "boolean_attribute", "BOOLEANS", "BOTH", "check_axis", "check_dimension_count", "check_length",
    "check_sizes", "ClassVar", "CORRECTLY_ROUNDED", "CORRECTLY_ROUNDED_AFTER_SCALE_BIAS", "count_attribute",
    "data_type_attribute", "DataType", "DataTypeRule", "Declaration", "DENORMALS_DECISION", "Described",
    "directml_name", "Draft", "elementwise", "enum_attribute", "EXACT_AFTER_SCALE_BIAS", "FeatureLevel",
    "float_array_attribute", "float_attribute", "FLOAT_ATTRIBUTES_DECISION", "FLOATS", "FLOATS_AND_WORDS",
    "FLOATS_WORDS_AND_PAIRS", "FUSABLE_ACTIVATIONS", "fused_activation_attribute", "FusedActivation",
    "integer_array_attribute", "integer_attribute", "IsInfinityMode", "Mapping", "member_text", "Minimum",
    "OneGradient", "OneInput", "OperatorDesc", "QuantizationType", "ReduceFunction", "refuse", "RoundingMode",
    "scalar_union_attribute", "scale_bias_attribute", "SCALE_BIAS_DECISION", "ScaleBias", "Scaled", "Sequence",
    "SIGNED_TO_32", "SIGNED_TO_64", "Size2D", "size_attribute", "Sizes", "Support", "tensor_array_input",
    "tensor_array_output", "tensor_input", "tensor_of", "tensor_output", "TensorDesc", "TensorFlags", "TwoInputs",
    "TypeChoice", "TYPES_TO_32", "TYPES_TO_64", "unsigned_array_attribute", "unsigned_attribute", "UNSIGNED_TO_32",
    "UNSIGNED_TO_64", "WithCount", "WithInput", "WithWindows",
]  # fmt: skip
