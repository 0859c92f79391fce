"""The same functions in other libraries' words, and the values that operators are measured on."""

from __future__ import annotations

import dataclasses
from typing import Any

from dmlvk.operators import OperatorDesc

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "ELEMENT_WISE_THRESHOLD": {"min": 0.5},
    "ELEMENT_WISE_CONSTANT_POW": {"exponent": 2.5},
    "ACTIVATION_CELU": {"alpha": 1.0},
    "ACTIVATION_ELU": {"alpha": 1.0},
    "ACTIVATION_HARD_SIGMOID": {"alpha": 1 / 6, "beta": 0.5},
    "ACTIVATION_HARD_SWISH": {"alpha": 1 / 6, "beta": 0.5},
    "ACTIVATION_LEAKY_RELU": {"alpha": 0.01},
    "ACTIVATION_SCALED_ELU": {"alpha": 1.6732632, "gamma": 1.0507010},
    "ACTIVATION_SOFTPLUS": {"steepness": 1.0},
    "ACTIVATION_SWISH": {"sigmoid_input_scale": 1.0},
    "ACTIVATION_HARDMAX1": {"axes": (1,), "axis_count": 1},
    "ACTIVATION_LOG_SOFTMAX1": {"axes": (1,), "axis_count": 1},
    "ACTIVATION_SOFTMAX1": {"axes": (1,), "axis_count": 1},
}
"""Attributes that make an operator the function below, unless others are asked for."""

DOMAINS: dict[str, tuple[float, float]] = {"ELEMENT_WISE_ACOSH": (1.1, 9.5)}
"""Values of the inputs, from and to, where they are not between 0.1 and 0.95: for all operators an ordinary value."""


@dataclasses.dataclass(frozen=True)
class Function:
    """A function in other libraries' words; an empty text where a library does not have it.

    Attributes:
        numpy: the name in NumPy and CuPy, called with the inputs, ``extra`` and ``out=``.
        torch: the name in PyTorch, called likewise; without ``out=`` where it is one of ``nn.functional``.
        onnx: the ONNX operator.
        shader: an expression of ``a`` and ``b`` that GLSL and WGSL both understand, componentwise on vectors.
        taichi: an expression of ``a`` and ``b`` in Taichi.
        extra: more arguments of the NumPy and PyTorch functions; a name is that of the operator's attribute.
    """

    numpy: str = ""
    torch: str = ""
    onnx: str = ""
    shader: str = ""
    taichi: str = ""
    extra: tuple[float | str, ...] = ()

    def arguments(self, desc: OperatorDesc) -> list[float]:
        """The further arguments for an operator as it is described."""
        return [getattr(desc, value) if isinstance(value, str) else value for value in self.extra]


FUNCTIONS: dict[str, Function] = {
    "ELEMENT_WISE_ABS": Function("abs", "abs", "Abs", "abs(a)", "ti.abs(a)"),
    "ELEMENT_WISE_ACOS": Function("arccos", "acos", "Acos", "acos(a)", "ti.acos(a)"),
    "ELEMENT_WISE_ACOSH": Function("arccosh", "acosh", "Acosh", "acosh(a)"),
    "ELEMENT_WISE_ADD": Function("add", "add", "Add", "a + b", "a + b"),
    "ELEMENT_WISE_ASIN": Function("arcsin", "asin", "Asin", "asin(a)", "ti.asin(a)"),
    "ELEMENT_WISE_ASINH": Function("arcsinh", "asinh", "Asinh", "asinh(a)"),
    "ELEMENT_WISE_ATAN": Function("arctan", "atan", "Atan", "atan(a)"),
    "ELEMENT_WISE_ATANH": Function("arctanh", "atanh", "Atanh", "atanh(a)"),
    "ELEMENT_WISE_ATAN_YX": Function("arctan2", "atan2"),
    "ELEMENT_WISE_CEIL": Function("ceil", "ceil", "Ceil", "ceil(a)", "ti.ceil(a)"),
    "ELEMENT_WISE_CONSTANT_POW": Function("power", "pow", extra=("exponent",)),
    "ELEMENT_WISE_COS": Function("cos", "cos", "Cos", "cos(a)", "ti.cos(a)"),
    "ELEMENT_WISE_COSH": Function("cosh", "cosh", "Cosh", "cosh(a)"),
    "ELEMENT_WISE_DIVIDE": Function("divide", "div", "Div", "a / b", "a / b"),
    "ELEMENT_WISE_ERF": Function("", "erf", "Erf"),
    "ELEMENT_WISE_EXP": Function("exp", "exp", "Exp", "exp(a)", "ti.exp(a)"),
    "ELEMENT_WISE_FLOOR": Function("floor", "floor", "Floor", "floor(a)", "ti.floor(a)"),
    "ELEMENT_WISE_IDENTITY": Function("positive", "clone", "Identity", "a", "a"),
    "ELEMENT_WISE_IF": Function("where", "where", "Where"),
    "ELEMENT_WISE_LOG": Function("log", "log", "Log", "log(a)", "ti.log(a)"),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": Function("greater", "gt", "Greater"),
    "ELEMENT_WISE_MAX": Function("maximum", "maximum", "Max", "max(a, b)", "ti.max(a, b)"),
    "ELEMENT_WISE_MIN": Function("minimum", "minimum", "Min", "min(a, b)", "ti.min(a, b)"),
    "ELEMENT_WISE_MODULUS_FLOOR": Function("remainder", "remainder"),
    "ELEMENT_WISE_MODULUS_TRUNCATE": Function("fmod", "fmod"),
    "ELEMENT_WISE_MULTIPLY": Function("multiply", "mul", "Mul", "a * b", "a * b"),
    "ELEMENT_WISE_NEGATE": Function("negative", "neg", "Neg", "-a", "-a"),
    "ELEMENT_WISE_POW": Function("power", "pow", "Pow", "pow(a, b)", "ti.pow(a, b)"),
    "ELEMENT_WISE_RECIP": Function("reciprocal", "reciprocal", "Reciprocal", "1.0 / a", "1.0 / a"),
    "ELEMENT_WISE_SIGN": Function("sign", "sign", "Sign", "sign(a)", "ti.math.sign(a)"),
    "ELEMENT_WISE_SIN": Function("sin", "sin", "Sin", "sin(a)", "ti.sin(a)"),
    "ELEMENT_WISE_SINH": Function("sinh", "sinh", "Sinh", "sinh(a)"),
    "ELEMENT_WISE_SQRT": Function("sqrt", "sqrt", "Sqrt", "sqrt(a)", "ti.sqrt(a)"),
    "ELEMENT_WISE_SUBTRACT": Function("subtract", "sub", "Sub", "a - b", "a - b"),
    "ELEMENT_WISE_TAN": Function("tan", "tan", "Tan", "tan(a)", "ti.tan(a)"),
    "ELEMENT_WISE_TANH": Function("tanh", "tanh", "Tanh", "tanh(a)", "ti.tanh(a)"),
    "ELEMENT_WISE_THRESHOLD": Function(
        "maximum", "clamp_min", "", "max(a, vec4(0.5))", "ti.max(a, 0.5)", extra=("min",)
    ),
    "ACTIVATION_CELU": Function("", "nn.functional.celu", "Celu", extra=("alpha",)),
    "ACTIVATION_ELU": Function("", "nn.functional.elu", "Elu", extra=("alpha",)),
    "ACTIVATION_GELU": Function("", "nn.functional.gelu"),
    "ACTIVATION_HARD_SIGMOID": Function("", "nn.functional.hardsigmoid"),
    "ACTIVATION_HARD_SWISH": Function("", "nn.functional.hardswish", "HardSwish"),
    "ACTIVATION_LEAKY_RELU": Function("", "nn.functional.leaky_relu", "LeakyRelu", extra=("alpha",)),
    "ACTIVATION_LOG_SOFTMAX": Function("", "log_softmax", "LogSoftmax", extra=(1,)),
    "ACTIVATION_RELU": Function("", "relu", "Relu", "max(a, vec4(0.0))", "ti.max(a, 0.0)"),
    "ACTIVATION_SCALED_ELU": Function("", "nn.functional.selu", "Selu"),
    "ACTIVATION_SIGMOID": Function("", "sigmoid", "Sigmoid", "1.0 / (1.0 + exp(-a))", "1.0 / (1.0 + ti.exp(-a))"),
    "ACTIVATION_SOFTMAX": Function("", "softmax", "Softmax", extra=(1,)),
    "ACTIVATION_SOFTPLUS": Function("", "nn.functional.softplus", "Softplus", extra=("steepness",)),
    "ACTIVATION_SOFTSIGN": Function("", "nn.functional.softsign", "Softsign"),
    "ACTIVATION_SWISH": Function("", "nn.functional.silu"),
    "ACTIVATION_TANH": Function("tanh", "tanh", "Tanh", "tanh(a)", "ti.tanh(a)"),
}
"""By operator. Functions that a library lacks, or computes otherwise, are left out."""
