"""What each operator's result must be: the table of all references.

They follow the declarations' formulas and decisions, but not the shaders' ways: numbers are decoded into float64, which
holds every float32 and float16 exactly, or into int64, and compared and computed as numbers there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance import facets
from dmlvk.conformance.references import (
    arithmetic,
    error_function,
    exact,
    exponential,
    logarithm,
    piecewise,
    power,
    quantization,
    rows,
    trigonometry,
)
from dmlvk.conformance.references.scaling import float_bound, integer_bound, prescaled

Array = npt.NDArray[Any]
Reference = Callable[..., Array]
"""Called with the description and its input arrays in the order of the members; returns the output."""


def element_wise_if(desc: dml.ElementWiseIf, condition: Array, a: Array, b: Array) -> Array:
    """Whole elements are copied, as opaque bytes."""
    opaque = np.dtype((np.void, a.dtype.itemsize))
    selected = np.ascontiguousarray(b).view(opaque).copy()
    np.copyto(selected, np.ascontiguousarray(a).view(opaque), where=condition.astype(np.bool_))
    return selected.view(a.dtype)


def element_wise_sign(desc: dml.ElementWiseSign, x: Array) -> Array:
    """One where above zero, minus one where below; a comparison with NaN is false twice, and so gives 0."""
    numbers = exact.numbers_of(x)
    sign: Array = (numbers > 0).astype(x.dtype) - (numbers < 0).astype(x.dtype)
    return sign


def element_wise_threshold(desc: dml.ElementWiseThreshold, x: Array) -> Array:
    """The larger of x (scaled and biased) and Min; chosen as a whole element."""
    x = prescaled(x, desc.scale_bias)
    if x.dtype.kind != "f":
        return np.maximum(x, integer_bound(desc.min, x.dtype))
    return exact.larger(x, np.broadcast_to(float_bound(desc.min, x.dtype), x.shape))


def element_wise_add1(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """The sum as ELEMENT_WISE_ADD gives it; then what the activation's own reference makes of a tensor of such sums."""
    total: Array = arithmetic.add(desc, a, b)
    fused = desc.activation
    if fused is None:
        return total
    tensor = dml.TensorDesc(desc.output_type, total.shape)
    attributes = {field.name: value for field, value in fused.attributes}
    alone = dml.operator_desc(fused.operator_name, InputTensor=tensor, OutputTensor=tensor, **attributes)
    result: Array = REFERENCES[fused.operator_name](alone, total)
    return result


REFERENCES: dict[str, Reference] = {
    "ACTIVATION_CELU": exponential.continuous_exponential_linear,
    "ACTIVATION_ELU": exponential.exponential_linear,
    "ACTIVATION_GELU": error_function.gelu,
    "ACTIVATION_HARD_SIGMOID": piecewise.hard_sigmoid,
    "ACTIVATION_HARD_SWISH": piecewise.hard_swish,
    "ACTIVATION_HARDMAX": rows.hardmax,
    "ACTIVATION_HARDMAX1": rows.hardmax,
    "ACTIVATION_IDENTITY": exact.identity,
    "ACTIVATION_LEAKY_RELU": piecewise.leaky_relu,
    "ACTIVATION_LINEAR": piecewise.linear,
    "ACTIVATION_PARAMETERIZED_RELU": piecewise.parameterized_relu,
    "ACTIVATION_PARAMETRIC_SOFTPLUS": logarithm.parametric_softplus,
    "ACTIVATION_LOG_SOFTMAX": rows.log_softmax,
    "ACTIVATION_LOG_SOFTMAX1": rows.log_softmax,
    "ACTIVATION_RELU": exact.relu,
    "ACTIVATION_RELU_GRAD": exact.relu_gradient,
    "ACTIVATION_SCALED_ELU": exponential.scaled_exponential_linear,
    "ACTIVATION_SCALED_TANH": exponential.scaled_hyperbolic_tangent,
    "ACTIVATION_SHRINK": piecewise.shrink,
    "ACTIVATION_SIGMOID": exponential.logistic,
    "ACTIVATION_SOFTMAX": rows.softmax,
    "ACTIVATION_SOFTMAX1": rows.softmax,
    "ACTIVATION_SOFTPLUS": logarithm.softplus,
    "ACTIVATION_SOFTSIGN": piecewise.softsign,
    "ACTIVATION_SWISH": exponential.swish,
    "ACTIVATION_TANH": exponential.hyperbolic_tangent,
    "ACTIVATION_THRESHOLDED_RELU": exact.thresholded_relu,
    "ELEMENT_WISE_ABS": exact.absolute,
    "ELEMENT_WISE_ACOS": trigonometry.arccosine,
    "ELEMENT_WISE_ACOSH": logarithm.inverse_hyperbolic_cosine,
    "ELEMENT_WISE_ADD": arithmetic.add,
    "ELEMENT_WISE_ADD1": element_wise_add1,
    "ELEMENT_WISE_ASIN": trigonometry.arcsine,
    "ELEMENT_WISE_ASINH": logarithm.inverse_hyperbolic_sine,
    "ELEMENT_WISE_ATAN": trigonometry.arctangent,
    "ELEMENT_WISE_ATANH": logarithm.inverse_hyperbolic_tangent,
    "ELEMENT_WISE_ATAN_YX": trigonometry.angle,
    "ELEMENT_WISE_BIT_AND": exact.bit_and,
    "ELEMENT_WISE_BIT_COUNT": exact.bit_count,
    "ELEMENT_WISE_BIT_NOT": exact.bit_not,
    "ELEMENT_WISE_BIT_OR": exact.bit_or,
    "ELEMENT_WISE_BIT_SHIFT_LEFT": exact.bit_shift_left,
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": exact.bit_shift_right,
    "ELEMENT_WISE_BIT_XOR": exact.bit_xor,
    "ELEMENT_WISE_CEIL": exact.ceiling,
    "ELEMENT_WISE_CLIP": exact.clip,
    "ELEMENT_WISE_CLIP1": exact.clip,
    "ELEMENT_WISE_CLIP_GRAD": exact.clip_gradient,
    "ELEMENT_WISE_CLIP_GRAD1": exact.clip_gradient,
    "ELEMENT_WISE_CONSTANT_POW": power.constant_power,
    "ELEMENT_WISE_COS": trigonometry.cosine,
    "ELEMENT_WISE_COSH": exponential.hyperbolic_cosine,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": quantization.dequantize_linear,
    "ELEMENT_WISE_DIFFERENCE_SQUARE": arithmetic.difference_square,
    "ELEMENT_WISE_DIVIDE": arithmetic.divide,
    "ELEMENT_WISE_ERF": error_function.error_function,
    "ELEMENT_WISE_EXP": exponential.exponential,
    "ELEMENT_WISE_FLOOR": exact.floor,
    "ELEMENT_WISE_IDENTITY": exact.identity,
    "ELEMENT_WISE_IF": element_wise_if,
    "ELEMENT_WISE_IS_INFINITY": exact.is_infinity,
    "ELEMENT_WISE_IS_NAN": exact.is_nan,
    "ELEMENT_WISE_LOG": logarithm.logarithm,
    "ELEMENT_WISE_LOGICAL_AND": exact.logical_and,
    "ELEMENT_WISE_LOGICAL_EQUALS": exact.equals,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": exact.greater,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": exact.greater_or_equal,
    "ELEMENT_WISE_LOGICAL_LESS_THAN": exact.less,
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": exact.less_or_equal,
    "ELEMENT_WISE_LOGICAL_NOT": exact.logical_not,
    "ELEMENT_WISE_LOGICAL_OR": exact.logical_or,
    "ELEMENT_WISE_LOGICAL_XOR": exact.logical_xor,
    "ELEMENT_WISE_MAX": exact.maximum,
    "ELEMENT_WISE_MEAN": arithmetic.mean,
    "ELEMENT_WISE_MIN": exact.minimum,
    "ELEMENT_WISE_MODULUS_FLOOR": arithmetic.modulus_floor,
    "ELEMENT_WISE_MODULUS_TRUNCATE": arithmetic.modulus_truncate,
    "ELEMENT_WISE_MULTIPLY": arithmetic.multiply,
    "ELEMENT_WISE_NEGATE": exact.negate,
    "ELEMENT_WISE_POW": power.power,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": quantization.quantized_linear_add,
    "ELEMENT_WISE_QUANTIZE_LINEAR": quantization.quantize_linear,
    "ELEMENT_WISE_RECIP": arithmetic.recip,
    "ELEMENT_WISE_ROUND": exact.rounded,
    "ELEMENT_WISE_SIGN": element_wise_sign,
    "ELEMENT_WISE_SIN": trigonometry.sine,
    "ELEMENT_WISE_SINH": exponential.hyperbolic_sine,
    "ELEMENT_WISE_SQRT": arithmetic.sqrt,
    "ELEMENT_WISE_SUBTRACT": arithmetic.subtract,
    "ELEMENT_WISE_TAN": trigonometry.tangent,
    "ELEMENT_WISE_TANH": exponential.hyperbolic_tangent,
    "ELEMENT_WISE_THRESHOLD": element_wise_threshold,
}
"""The reference of every operator, by DirectML's name."""


def has_true_values(desc: dml.OperatorDesc) -> bool:
    """Whether the reference gives true values: of floats of class «accurate», whose last bit no definition settles."""
    return desc.accuracy.promise == "accurate" and desc.output_type.is_float


def expected_output(desc: dml.OperatorDesc, inputs: list[Array]) -> Array:
    """What the operator must give for logical input arrays, in the order of its input members that are given.

    The output itself; or, where :func:`has_true_values`, the true values in float64.

    Raises:
        FacetError: when the operator has no reference, or it fails, or gives another type.
    """
    name, compute = desc.operator_name, REFERENCES.get(desc.operator_name)
    if compute is None:
        raise facets.missing(name, "reference", "dmlvk/conformance/references")
    given = compute
    output: Array = facets.result_of(name, "reference", lambda: given(desc, *inputs))
    wanted = desc.output_type.numpy_dtype
    if not has_true_values(desc) and output.dtype != wanted:
        raise facets.fault(name, "reference", f"gives {output.dtype}; the output is {np.dtype(wanted)}")
    return output
