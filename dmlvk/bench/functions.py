"""The same functions in other libraries' words, and the values that operators are measured on."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dmlvk.operators import IsInfinityMode, OperatorDesc, RoundingMode

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "ELEMENT_WISE_CLIP": {"min": 0.25, "max": 0.75},
    "ELEMENT_WISE_CLIP1": {"min": 0.25, "max": 0.75},
    "ELEMENT_WISE_CLIP_GRAD": {"min": 0.25, "max": 0.75},
    "ELEMENT_WISE_CLIP_GRAD1": {"min": 0.25, "max": 0.75},
    "ELEMENT_WISE_CONSTANT_POW": {"exponent": 2.5},
    "ELEMENT_WISE_IS_INFINITY": {"infinity_mode": IsInfinityMode.EITHER},
    "ELEMENT_WISE_ROUND": {"rounding_mode": RoundingMode.HALVES_TO_NEAREST_EVEN},
    "ELEMENT_WISE_THRESHOLD": {"min": 0.5},
    "ACTIVATION_CELU": {"alpha": 1.0},
    "ACTIVATION_ELU": {"alpha": 1.0},
    "ACTIVATION_HARD_SIGMOID": {"alpha": 1 / 6, "beta": 0.5},
    "ACTIVATION_HARD_SWISH": {"alpha": 1 / 6, "beta": 0.5},
    "ACTIVATION_LEAKY_RELU": {"alpha": 0.01},
    "ACTIVATION_LINEAR": {"alpha": 0.3, "beta": 0.7},
    "ACTIVATION_PARAMETRIC_SOFTPLUS": {"alpha": 0.5, "beta": 2.0},
    "ACTIVATION_SCALED_ELU": {"alpha": 1.6732632, "gamma": 1.0507010},
    "ACTIVATION_SCALED_TANH": {"alpha": 1.7159, "beta": 2 / 3},
    "ACTIVATION_SHRINK": {"bias": 0.5, "threshold": 0.5},
    "ACTIVATION_SOFTPLUS": {"steepness": 1.0},
    "ACTIVATION_SWISH": {"sigmoid_input_scale": 1.0},
    "ACTIVATION_THRESHOLDED_RELU": {"alpha": 0.5},
    "ACTIVATION_HARDMAX1": {"axes": (1,), "axis_count": 1},
    "ACTIVATION_LOG_SOFTMAX1": {"axes": (1,), "axis_count": 1},
    "ACTIVATION_SOFTMAX1": {"axes": (1,), "axis_count": 1},
}
"""Attributes that make an operator the function below, unless others are asked for."""

_INTEGER_BOUNDS: dict[str, Any] = {"min": 16, "max": 64}


def attributes_of(name: str, of_integers: bool) -> dict[str, Any]:
    """The attributes that an operator is measured with; of integers, what bounds them are integers."""
    attributes = ATTRIBUTES.get(name, {})
    return {key: _INTEGER_BOUNDS.get(key, value) if of_integers else value for key, value in attributes.items()}


def has_usual_attributes(desc: OperatorDesc) -> bool:
    """Whether an operator has the attributes that make it the function below."""
    usual = ATTRIBUTES.get(desc.operator_name, {})
    return all(math.isclose(getattr(desc, name), value, rel_tol=1e-6) for name, value in usual.items())


_ALL_SIGNS = (-4.0, 4.0)
DOMAINS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        [
            *("ACTIVATION_CELU", "ACTIVATION_ELU", "ACTIVATION_GELU", "ACTIVATION_HARD_SIGMOID"),
            *("ACTIVATION_HARD_SWISH", "ACTIVATION_LEAKY_RELU", "ACTIVATION_LINEAR", "ACTIVATION_PARAMETERIZED_RELU"),
            *("ACTIVATION_PARAMETRIC_SOFTPLUS", "ACTIVATION_RELU", "ACTIVATION_RELU_GRAD", "ACTIVATION_SCALED_ELU"),
            *("ACTIVATION_SCALED_TANH", "ACTIVATION_SHRINK", "ACTIVATION_SIGMOID", "ACTIVATION_SOFTPLUS"),
            *("ACTIVATION_SOFTSIGN", "ACTIVATION_SWISH", "ACTIVATION_TANH", "ACTIVATION_THRESHOLDED_RELU"),
            *("ELEMENT_WISE_ABS", "ELEMENT_WISE_ASINH", "ELEMENT_WISE_ATAN", "ELEMENT_WISE_CEIL", "ELEMENT_WISE_COS"),
            *("ELEMENT_WISE_COSH", "ELEMENT_WISE_ERF", "ELEMENT_WISE_EXP", "ELEMENT_WISE_FLOOR"),
            *("ELEMENT_WISE_NEGATE", "ELEMENT_WISE_ROUND", "ELEMENT_WISE_SIGN", "ELEMENT_WISE_SIN"),
            *("ELEMENT_WISE_SINH", "ELEMENT_WISE_TAN", "ELEMENT_WISE_TANH"),
        ],
        _ALL_SIGNS,
    ),
    **dict.fromkeys(["ELEMENT_WISE_ACOS", "ELEMENT_WISE_ASIN", "ELEMENT_WISE_ATANH"], (-0.95, 0.95)),
    **dict.fromkeys(["ELEMENT_WISE_LOG", "ELEMENT_WISE_RECIP", "ELEMENT_WISE_SQRT"], (0.1, 9.5)),
    "ELEMENT_WISE_ACOSH": (1.1, 9.5),
}
"""Values of floating-point inputs, from and to, evenly distributed; of operators that are not here 0.1 and 0.95."""

INTEGER_DOMAINS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(["ELEMENT_WISE_BIT_SHIFT_LEFT", "ELEMENT_WISE_BIT_SHIFT_RIGHT"], (0, 8)),
    **dict.fromkeys(["ELEMENT_WISE_LOGICAL_AND", "ELEMENT_WISE_LOGICAL_NOT"], (0, 2)),
    **dict.fromkeys(["ELEMENT_WISE_LOGICAL_OR", "ELEMENT_WISE_LOGICAL_XOR"], (0, 2)),
}
"""Values of integer inputs, from and below; of operators that are not here from 1 and below 100."""


@dataclasses.dataclass(frozen=True)
class LibraryFunction:
    """A function in other libraries' words; an empty text where a library does not have it."""

    # the name in NumPy, called with the inputs, ``extra`` and ``out=``; functions that take more than one call are in
    # :mod:`dmlvk.bench.expressions`
    numpy: str = ""
    # the name in PyTorch, called likewise; without ``out=`` where it has none. Functions that take more than one
    # call, or have no attributes, are there, too
    torch: str = ""
    onnx: str = ""  # the ONNX operator
    # more arguments of the NumPy and PyTorch functions; a name is that of the operator's attribute
    extra: tuple[float | str, ...] = ()

    def arguments(self, desc: OperatorDesc) -> list[float]:
        """The further arguments for an operator as it is described."""
        return [getattr(desc, value) if isinstance(value, str) else value for value in self.extra]


FUNCTIONS: dict[str, LibraryFunction] = {
    "ELEMENT_WISE_ABS": LibraryFunction("abs", "abs", "Abs"),
    "ELEMENT_WISE_ACOS": LibraryFunction("arccos", "acos", "Acos"),
    "ELEMENT_WISE_ACOSH": LibraryFunction("arccosh", "acosh", "Acosh"),
    "ELEMENT_WISE_ADD": LibraryFunction("add", "add", "Add"),
    "ELEMENT_WISE_ADD1": LibraryFunction("add", "add", "Add"),
    "ELEMENT_WISE_ASIN": LibraryFunction("arcsin", "asin", "Asin"),
    "ELEMENT_WISE_ASINH": LibraryFunction("arcsinh", "asinh", "Asinh"),
    "ELEMENT_WISE_ATAN": LibraryFunction("arctan", "atan", "Atan"),
    "ELEMENT_WISE_ATANH": LibraryFunction("arctanh", "atanh", "Atanh"),
    "ELEMENT_WISE_ATAN_YX": LibraryFunction("arctan2", "atan2"),
    "ELEMENT_WISE_BIT_AND": LibraryFunction("", "bitwise_and"),
    "ELEMENT_WISE_BIT_NOT": LibraryFunction("", "bitwise_not"),
    "ELEMENT_WISE_BIT_OR": LibraryFunction("", "bitwise_or"),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": LibraryFunction("left_shift", "bitwise_left_shift"),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": LibraryFunction("right_shift", "bitwise_right_shift"),
    "ELEMENT_WISE_BIT_XOR": LibraryFunction("", "bitwise_xor"),
    "ELEMENT_WISE_CEIL": LibraryFunction("ceil", "ceil", "Ceil"),
    "ELEMENT_WISE_CLIP": LibraryFunction("", "clamp", extra=("min", "max")),
    "ELEMENT_WISE_CLIP1": LibraryFunction("", "clamp", extra=("min", "max")),
    "ELEMENT_WISE_CONSTANT_POW": LibraryFunction("power", "pow", extra=("exponent",)),
    "ELEMENT_WISE_COS": LibraryFunction("cos", "cos", "Cos"),
    "ELEMENT_WISE_COSH": LibraryFunction("cosh", "cosh", "Cosh"),
    "ELEMENT_WISE_DIVIDE": LibraryFunction("divide", "div", "Div"),
    "ELEMENT_WISE_ERF": LibraryFunction("", "erf", "Erf"),
    "ELEMENT_WISE_EXP": LibraryFunction("exp", "exp", "Exp"),
    "ELEMENT_WISE_FLOOR": LibraryFunction("floor", "floor", "Floor"),
    "ELEMENT_WISE_IDENTITY": LibraryFunction("positive", "clone", "Identity"),
    "ELEMENT_WISE_IF": LibraryFunction("", "where", "Where"),
    "ELEMENT_WISE_IS_INFINITY": LibraryFunction("isinf", "isinf", "IsInf"),
    "ELEMENT_WISE_IS_NAN": LibraryFunction("isnan", "isnan", "IsNaN"),
    "ELEMENT_WISE_LOG": LibraryFunction("log", "log", "Log"),
    "ELEMENT_WISE_LOGICAL_AND": LibraryFunction("logical_and", "logical_and"),
    "ELEMENT_WISE_LOGICAL_EQUALS": LibraryFunction("equal", "eq", "Equal"),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": LibraryFunction("greater", "gt", "Greater"),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": LibraryFunction("greater_equal", "ge", "GreaterOrEqual"),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": LibraryFunction("less", "lt", "Less"),
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": LibraryFunction("less_equal", "le", "LessOrEqual"),
    "ELEMENT_WISE_LOGICAL_NOT": LibraryFunction("logical_not", "logical_not"),
    "ELEMENT_WISE_LOGICAL_OR": LibraryFunction("logical_or", "logical_or"),
    "ELEMENT_WISE_LOGICAL_XOR": LibraryFunction("logical_xor", "logical_xor"),
    "ELEMENT_WISE_MAX": LibraryFunction("maximum", "maximum", "Max"),
    "ELEMENT_WISE_MIN": LibraryFunction("minimum", "minimum", "Min"),
    "ELEMENT_WISE_MODULUS_FLOOR": LibraryFunction("remainder", "remainder"),
    "ELEMENT_WISE_MODULUS_TRUNCATE": LibraryFunction("fmod", "fmod"),
    "ELEMENT_WISE_MULTIPLY": LibraryFunction("multiply", "mul", "Mul"),
    "ELEMENT_WISE_NEGATE": LibraryFunction("negative", "neg", "Neg"),
    "ELEMENT_WISE_POW": LibraryFunction("power", "pow", "Pow"),
    "ELEMENT_WISE_RECIP": LibraryFunction("reciprocal", "reciprocal", "Reciprocal"),
    "ELEMENT_WISE_ROUND": LibraryFunction("rint", "round"),
    "ELEMENT_WISE_SIGN": LibraryFunction("sign", "sign", "Sign"),
    "ELEMENT_WISE_SIN": LibraryFunction("sin", "sin", "Sin"),
    "ELEMENT_WISE_SINH": LibraryFunction("sinh", "sinh", "Sinh"),
    "ELEMENT_WISE_SQRT": LibraryFunction("sqrt", "sqrt", "Sqrt"),
    "ELEMENT_WISE_SUBTRACT": LibraryFunction("subtract", "sub", "Sub"),
    "ELEMENT_WISE_TAN": LibraryFunction("tan", "tan", "Tan"),
    "ELEMENT_WISE_TANH": LibraryFunction("tanh", "tanh", "Tanh"),
    "ELEMENT_WISE_THRESHOLD": LibraryFunction("maximum", "clamp_min", extra=("min",)),
    "ACTIVATION_CELU": LibraryFunction("", "nn.functional.celu", "Celu", extra=("alpha",)),
    "ACTIVATION_ELU": LibraryFunction("", "nn.functional.elu", "Elu", extra=("alpha",)),
    "ACTIVATION_GELU": LibraryFunction("", "nn.functional.gelu"),
    "ACTIVATION_HARD_SIGMOID": LibraryFunction("", "nn.functional.hardsigmoid"),
    "ACTIVATION_HARD_SWISH": LibraryFunction("", "nn.functional.hardswish", "HardSwish"),
    "ACTIVATION_IDENTITY": LibraryFunction("positive", "clone", "Identity"),
    "ACTIVATION_LEAKY_RELU": LibraryFunction("", "nn.functional.leaky_relu", "LeakyRelu", extra=("alpha",)),
    "ACTIVATION_LOG_SOFTMAX": LibraryFunction("", "log_softmax", "LogSoftmax", extra=(1,)),
    "ACTIVATION_RELU": LibraryFunction("", "relu", "Relu"),
    "ACTIVATION_SCALED_ELU": LibraryFunction("", "nn.functional.selu", "Selu"),
    "ACTIVATION_SIGMOID": LibraryFunction("", "sigmoid", "Sigmoid"),
    "ACTIVATION_SOFTMAX": LibraryFunction("", "softmax", "Softmax", extra=(1,)),
    "ACTIVATION_SOFTPLUS": LibraryFunction("", "nn.functional.softplus", "Softplus", extra=("steepness",)),
    "ACTIVATION_SOFTSIGN": LibraryFunction("", "nn.functional.softsign", "Softsign"),
    "ACTIVATION_SWISH": LibraryFunction("", "nn.functional.silu"),
    "ACTIVATION_TANH": LibraryFunction("tanh", "tanh", "Tanh"),
    "ACTIVATION_THRESHOLDED_RELU": LibraryFunction("", "nn.functional.threshold", extra=("alpha", 0.0)),
}
"""By operator. Functions that a library lacks, or computes otherwise, are left out."""
