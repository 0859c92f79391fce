"""Element by element: arithmetic, comparisons, logic, functions, activations, choices."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.torch.lowering import Context, NotLowered, is_number, lowers, rounded_to_bfloat16
from dmlvk.torch.types import DATA_TYPES

_OF_ONE: dict[str, Callable[[Expression], Expression]] = {
    "abs": F.abs,
    "acos": F.acos,
    "acosh": F.acosh,
    "asin": F.asin,
    "asinh": F.asinh,
    "atan": F.atan,
    "atanh": F.atanh,
    "ceil": F.ceil,
    "cos": F.cos,
    "cosh": F.cosh,
    "erf": F.erf,
    "exp": F.exp,
    "floor": F.floor,
    "log": F.log,
    "neg": F.negate,
    "reciprocal": F.recip,
    "relu": lambda x: F.if_(x <= 0, x.graph.constant(0, x.data_type), x),  # NaN stays, unlike DirectML's
    "round": F.round,
    "rsqrt": lambda x: F.recip(F.sqrt(x)),
    "sigmoid": F.activation_sigmoid,
    "silu": lambda x: F.activation_swish(x, sigmoid_input_scale=1.0),
    "sin": F.sin,
    "sinh": F.sinh,
    "sqrt": F.sqrt,
    "tan": F.tan,
    "tanh": F.tanh,
    "log2": lambda x: F.log(x) * (1 / math.log(2)),
    "log10": lambda x: F.log(x) * (1 / math.log(10)),
    "exp2": lambda x: 2.0**x,
    "trunc": lambda x: F.if_(x < 0, F.ceil(x), F.floor(x)),
    "square": lambda x: x * x,
}

_WHOLE = {"ceil", "floor", "round", "trunc"}
_CHOOSE = {"abs", "neg", "relu", *_WHOLE}  # Those that give numbers of no more digits than their operand's


def _of_one(name: str, function: Callable[[Expression], Expression], context: Context, x: Expression) -> Expression:
    if context.dtype.is_floating_point is False and name in _WHOLE:
        return x
    return function(context.tensor(x))


for _name, _function in _OF_ONE.items():
    lowers(f"{_name}.default", chooses=_name in _CHOOSE)(functools.partial(_of_one, _name, _function))


@lowers("expm1.default")
def expm1(context: Context, x: Expression) -> Expression:
    """Exp(x) - 1 without loss near 0: 2 sinh(x / 2) exp(x / 2). It is -1 below -40, where the latter can be 0."""
    x = context.tensor(x)
    half = F.if_(x < -40.0, -40.0, x) * 0.5
    return F.sinh(half) * F.exp(half) * 2.0


@lowers("log1p.default")
def log1p(context: Context, x: Expression) -> Expression:
    """Log(1 + x) without loss near 0: 2 atanh(x / (2 + x))."""
    x = context.tensor(x)
    return F.if_(x < 1, 2.0 * F.atanh(x / (x + 2.0)), F.log(x + 1.0))


def _scaled(context: Context, value: Any, alpha: Any, other: Any) -> tuple[Expression, Expression]:
    """A part of a value, and what is added to it; FLOAT16 is rounded at the end alone."""
    value, other = context.narrow(value), context.narrow(other)
    if is_number(alpha, 1):
        return value, other
    wide = DataType.FLOAT32 if context.dtype is torch.float16 else None
    return context.tensor(value, wide) * context.tensor(context.narrow(alpha), wide), context.tensor(other, wide)


@lowers("add.Tensor", "add.Scalar")
def add(context: Context, a: Any, b: Any, alpha: Any = 1) -> Expression:
    if context.dtype is torch.bool:
        return F.logical_or(context.truth(a), context.truth(b))
    part, rest = _scaled(context, b, alpha, a)
    return rest + part


@lowers("sub.Tensor", "sub.Scalar")
def subtract(context: Context, a: Any, b: Any, alpha: Any = 1) -> Expression:
    part, rest = _scaled(context, b, alpha, a)
    return rest - part


@lowers("rsub.Tensor", "rsub.Scalar")
def subtract_from(context: Context, a: Any, b: Any, alpha: Any = 1) -> Expression:
    part, rest = _scaled(context, a, alpha, b)
    return rest - part


@lowers("mul.Tensor", "mul.Scalar")
def multiply(context: Context, a: Any, b: Any) -> Expression:
    if context.dtype is torch.bool:
        return F.logical_and(context.truth(a), context.truth(b))
    a, b = context.operands(a, b)
    return a * b


@lowers("div.Tensor", "div.Scalar", "true_divide.Tensor")
def divide(context: Context, a: Any, b: Any) -> Expression:
    """A / b, floats always."""
    a, b = context.operands(a, b)
    return a / b


@lowers("div.Tensor_mode", "div.Scalar_mode")
def divide_rounded(context: Context, a: Any, b: Any, rounding_mode: str | None = None) -> Expression:
    """A / b, rounded down, towards zero, or not."""
    if rounding_mode == "floor":
        wide = DataType.FLOAT32 if context.dtype is torch.float16 else None  # of the quotient before it is rounded
        return context.tensor(a, wide) // context.tensor(b, wide)
    a, b = context.operands(a, b)
    if rounding_mode is None:
        return a / b
    quotient = a / b
    if context.dtype is torch.bfloat16:
        quotient = rounded_to_bfloat16(quotient)
    return F.if_(quotient < 0, F.ceil(quotient), F.floor(quotient)) if context.dtype.is_floating_point else quotient


@lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(context: Context, a: Any, b: Any) -> Expression:
    """With the divisor's sign; a zero has the dividend's."""
    a, b = context.narrow(a), context.narrow(b)
    made = a % b
    if not context.dtype.is_floating_point:
        return made
    rest = F.modulus_truncate(a, b)
    return F.if_(F.logical_equals(rest, context.tensor(0)), rest, made)


@lowers("fmod.Tensor", "fmod.Scalar")
def fmod(context: Context, a: Any, b: Any) -> Expression:
    """With the dividend's sign."""
    return F.modulus_truncate(context.narrow(a), context.narrow(b))


@lowers("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(context: Context, a: Any, b: Any) -> Expression:
    if not isinstance(a, Expression) and not isinstance(b, Expression):
        raise NotLowered("a power of two numbers")
    if not isinstance(b, Expression) and b == 2:
        made = context.tensor(a)
        return made * made
    if not isinstance(b, Expression) and b in (0.5, -0.5) and context.dtype in (torch.float32, torch.bfloat16):
        root = F.sqrt(context.tensor(a))  # NaN of -inf, and -0 of -0, as PyTorch has it
        return root if b > 0 else F.recip(root)
    if context.dtype is torch.bfloat16 and not isinstance(b, Expression) and b == 3:
        made = context.tensor(a)
        return rounded_to_bfloat16(made * made) * made
    if not isinstance(b, Expression) and context.dtype.is_floating_point:
        return F.constant_pow(context.tensor(a), exponent=float(b))
    return F.pow(context.tensor(a), context.tensor(b))


@lowers("atan2.default")
def atan2(context: Context, a: Any, b: Any) -> Expression:
    return F.atan_yx(context.tensor(a), context.tensor(b))


@lowers("maximum.default", chooses=True)
def maximum(context: Context, a: Any, b: Any) -> Expression:
    """The larger one; NaN where one is."""
    return _with_nan(context, F.max(context.tensor(a), context.tensor(b)), a, b)


@lowers("minimum.default", chooses=True)
def minimum(context: Context, a: Any, b: Any) -> Expression:
    """The smaller one; NaN where one is."""
    return _with_nan(context, F.min(context.tensor(a), context.tensor(b)), a, b)


def _with_nan(context: Context, made: Expression, *operands: Any) -> Expression:
    """NaN where an operand is: PyTorch's rule, not DirectML's."""
    if not context.dtype.is_floating_point:
        return made
    for operand in operands:
        if isinstance(operand, Expression):
            own = context.tensor(operand)
            made = F.if_(F.is_nan(own), own, made)
        elif isinstance(operand, float) and math.isnan(operand):
            return context.tensor(operand).broadcast_to(made.sizes)
    return made


@lowers("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_min.Tensor")
def clamp(context: Context, x: Expression, min: Any = None, max: Any = None) -> Expression:
    """Between two bounds; NaN stays, and a bound that is one makes one."""
    made = context.tensor(x)
    if context.result is not None and min is None and max is None:
        raise NotLowered("clamp without bounds")
    if min is not None:
        made = F.max(made, context.tensor(min))
    if max is not None:
        made = F.min(made, context.tensor(max))
    return _with_nan(context, made, x, min, max)


@lowers("hardtanh.default")
def hardtanh(context: Context, x: Expression, min_val: Any = -1, max_val: Any = 1) -> Expression:
    return clamp(context, x, context.stored(min_val), context.stored(max_val))


@lowers("clamp_max.default", "clamp_max.Tensor")
def clamp_max(context: Context, x: Expression, max: Any) -> Expression:
    """At most so much."""
    return clamp(context, x, None, max)


_COMPARISONS: dict[str, Callable[[Expression, Expression], Expression]] = {
    "eq": F.logical_equals, "ne": F.not_equal, "lt": F.logical_less_than, "le": F.logical_less_than_or_equal,
    "gt": F.logical_greater_than, "ge": F.logical_greater_than_or_equal,
}  # fmt: skip


def _common(a: Any, b: Any) -> DataType:
    """In what two operands are compared: numbers of Python take the tensor's type, floats where it has integers."""
    if isinstance(a, Expression) and isinstance(b, Expression):
        if a.data_type is b.data_type:
            return a.data_type
        types = {data_type: dtype for dtype, data_type in reversed(list(DATA_TYPES.items()))}
        return DATA_TYPES[torch.promote_types(types[a.data_type], types[b.data_type])]
    tensor, number = (a, b) if isinstance(a, Expression) else (b, a)
    is_integer = tensor.data_type not in (DataType.FLOAT32, DataType.FLOAT16)
    return DataType.FLOAT32 if is_integer and isinstance(number, float) else tensor.data_type


def _compare(function: Callable[[Expression, Expression], Expression], context: Context, a: Any, b: Any) -> Expression:
    common = _common(a, b)
    return function(context.tensor(a, common), context.tensor(b, common))


for _name, _comparison in _COMPARISONS.items():
    lowers(f"{_name}.Tensor", f"{_name}.Scalar")(functools.partial(_compare, _comparison))


@lowers("isnan.default")
def isnan(context: Context, x: Expression) -> Expression:
    return F.is_nan(x) if _is_float(x) else x != x


@lowers("isinf.default")
def isinf(context: Context, x: Expression) -> Expression:
    return F.is_infinity(x) if _is_float(x) else x != x


def _is_float(x: Expression) -> bool:
    return x.data_type in (DataType.FLOAT32, DataType.FLOAT16)


def _logical(function: Callable[[Expression, Expression], Expression], context: Context, a: Any, b: Any) -> Expression:
    return function(context.truth(a), context.truth(b))


for _name, _logic in {"and": F.logical_and, "or": F.logical_or, "xor": F.logical_xor}.items():
    lowers(f"logical_{_name}.default")(functools.partial(_logical, _logic))


@lowers("logical_not.default")
def logical_not(context: Context, x: Expression) -> Expression:
    """It is 0."""
    return F.logical_not(context.truth(x))


@lowers("bitwise_not.default")
def bitwise_not(context: Context, x: Expression) -> Expression:
    """All bits are the other ones; of truths, the other one."""
    return F.logical_not(context.truth(x)) if context.dtype is torch.bool else F.bit_not(x)


_BITWISE = {"and": F.bit_and, "or": F.bit_or, "xor": F.bit_xor}


def _bitwise(function: Callable[[Expression, Expression], Expression], context: Context, a: Any, b: Any) -> Expression:
    return function(context.tensor(a), context.tensor(b))


for _name, _bits in _BITWISE.items():
    lowers(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar")(functools.partial(_bitwise, _bits))


_UNSIGNED = {
    DataType.INT64: DataType.UINT64,
    DataType.INT32: DataType.UINT32,
    DataType.INT16: DataType.UINT16,
    DataType.INT8: DataType.UINT8,
}


def _shifted(is_left: bool, context: Context, a: Any, b: Any) -> Expression:
    """Where so many places are more than the type has, zeros are left, or signs."""
    own = context.data_type
    x, count, zero = context.tensor(a), context.tensor(b), context.tensor(0)
    most = context.tensor(8 * own.size_in_bytes - 1)
    is_beyond = F.logical_or(count < 0, count > most)

    def moved(bits: Expression, places: Expression) -> Expression:
        """DirectML moves bits of unsigned integers."""
        function = F.bit_shift_left if is_left else F.bit_shift_right
        seen = [
            each.reinterpret(each.sizes, each.tensor.element_strides, _UNSIGNED.get(own)) for each in (bits, places)
        ]
        made = function(*seen)
        return made.reinterpret(made.sizes, made.tensor.element_strides, own)

    if is_left or own not in _UNSIGNED:
        return F.if_(is_beyond, zero, moved(x, F.if_(is_beyond, zero, count)))
    is_negative = x < 0
    made = moved(F.if_(is_negative, F.bit_not(x), x), F.if_(is_beyond, most, count))
    return F.if_(is_negative, F.bit_not(made), made)


_SHIFTS = {"bitwise_left_shift": True, "__lshift__": True, "bitwise_right_shift": False, "__rshift__": False}

for _name, _is_left in _SHIFTS.items():
    for _kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor", "Scalar"):
        lowers(f"{_name}.{_kind}")(functools.partial(_shifted, _is_left))


@lowers("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(context: Context, condition: Expression, a: Any, b: Any) -> Expression:
    shape = context.shape or (1,)
    chosen = [context.tensor(value).broadcast_to(shape) for value in (a, b)]
    return F.if_(context.truth(condition).broadcast_to(shape), *chosen)


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(context: Context, x: Expression, mask: Expression, value: Any) -> Expression:
    return where(context, mask, value, x)


@lowers("gelu.default")
def gelu(context: Context, x: Expression, approximate: str = "none") -> Expression:
    """By the error function, or by tanh (Hendrycks, Gimpel, 2016)."""
    if approximate == "none":
        return F.activation_gelu(context.tensor(x))
    wide = context.tensor(x, DataType.FLOAT32)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide * wide * wide)
    return 0.5 * wide * (1.0 + F.tanh(inner))


@lowers("leaky_relu.default")
def leaky_relu(context: Context, x: Expression, negative_slope: float = 0.01) -> Expression:
    """X, or a part of it below 0."""
    own, alpha = context.tensor(x), context.plain(negative_slope)
    if not math.isfinite(alpha):  # 0 times it is NaN
        return F.if_(own > 0, own, own * alpha)
    return F.activation_leaky_relu(own, alpha=alpha)


@lowers("elu.default")
def elu(context: Context, x: Expression, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Expression:
    """Scale * x, or scale * alpha * (exp(input_scale x) - 1) below 0."""
    own = context.tensor(x)
    below = F.activation_elu(own * context.tensor(input_scale), alpha=context.plain(alpha))
    made = F.if_(own > 0, own, below)
    return made if is_number(scale, 1) else made * context.tensor(scale)


@lowers("hardsigmoid.default")
def hardsigmoid(context: Context, x: Expression) -> Expression:
    """X / 6 + 1 / 2 between 0 and 1."""
    return F.activation_hard_sigmoid(context.tensor(x), alpha=1 / 6, beta=0.5)


@lowers("hardswish.default")
def hardswish(context: Context, x: Expression) -> Expression:
    """X times its hard sigmoid."""
    return F.activation_hard_swish(context.tensor(x), alpha=1 / 6, beta=0.5)


@lowers("sign.default", "sgn.default")
def sign(context: Context, x: Expression) -> Expression:
    """-1, 0 or 1; 0 of NaN, as in PyTorch."""
    return F.sign(context.tensor(x))


@lowers("threshold_backward.default")
def threshold_backward(context: Context, gradient: Expression, x: Expression, threshold: Any) -> Expression:
    """The gradient where x was above the threshold."""
    own = context.tensor(x)
    return F.if_(own > context.tensor(threshold), context.tensor(gradient), context.tensor(0))


@lowers("sigmoid_backward.default")
def sigmoid_backward(context: Context, gradient: Expression, y: Expression) -> Expression:
    """Gradient * y (1 - y)."""
    y = context.tensor(y)
    return context.tensor(gradient) * (y * (1.0 - y))


@lowers("tanh_backward.default")
def tanh_backward(context: Context, gradient: Expression, y: Expression) -> Expression:
    """Gradient * (1 - y^2)."""
    y = context.tensor(y)
    return context.tensor(gradient) * (1.0 - y * y)


@lowers("_to_copy.default", "prims.convert_element_type.default", "to.dtype")
def converted(context: Context, x: Expression, *_: Any, **__: Any) -> Expression:
    """Another data type; of truths, whether it is not 0."""
    if context.dtype is torch.bool:
        return context.truth(x)
    return context.cast(x, context.data_type)


@lowers("copy.default", chooses=True)
def copied(context: Context, _x: Expression, source: Expression, *_: Any) -> Expression:
    """Another tensor's values, repeated where it is smaller."""
    return converted(context, source).broadcast_to(context.shape or (1,))


@lowers("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", chooses=True)
def same(_: Context, x: Expression, *__: Any, **___: Any) -> Expression:
    return x
