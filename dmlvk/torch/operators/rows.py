"""Along axes: sums and other reductions, running sums, softmax, normalizations."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import AxisDirection, ReduceFunction
from dmlvk.torch.lowering import Context, NotLowered, axes_of, axis_of, lowers, reduced, with_equal_zeros


def _reduced(context: Context, x: Expression, function: ReduceFunction, dims: Any) -> Expression:
    """Along axes, which stay with a size of 1."""
    return reduced(x, function=function, axes=axes_of(dims, x.ndim))


def _sum(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Expression:
    return _reduced(context, context.tensor(x), ReduceFunction.SUM, dim)


lowers("sum.default", "sum.dim_IntList")(_sum)


@lowers("mean.default", "mean.dim")
def mean(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Expression:
    return _reduced(context, context.tensor(x), ReduceFunction.AVERAGE, dim)


@lowers("prod.default", "prod.dim_int")
def product(context: Context, x: Expression, dim: Any = None, keepdim: bool = False, **_: Any) -> Expression:
    return _reduced(context, context.tensor(x), ReduceFunction.MULTIPLY, dim)


def _extreme(function: ReduceFunction, context: Context, x: Expression, dim: Any = None, keepdim: bool = False) -> Any:
    own = context.tensor(x)
    made = _reduced(context, own, function, dim)
    if not context.dtype.is_floating_point:
        return made
    has_nan = _reduced(context, F.is_nan(own), ReduceFunction.MAX, dim)
    return F.if_(has_nan, context.tensor(math.nan), made)


lowers("amax.default", "max.default", chooses=True)(functools.partial(_extreme, ReduceFunction.MAX))
lowers("amin.default", "min.default", chooses=True)(functools.partial(_extreme, ReduceFunction.MIN))


def _arg_extreme(
    is_largest: bool, context: Context, x: Expression, dim: Any = None, keepdim: bool = False
) -> Expression:
    """Where the first largest or smallest element lies, zeros being equal; the first NaN, where there is one."""
    if dim is None:
        x, dim = context.reshaped(x, (math.prod(x.sizes),)), 0
    axes = axes_of(dim, x.ndim)
    function = F.argmax if is_largest else F.argmin

    def found(values: Expression) -> Expression:
        return function(values, axes, AxisDirection.INCREASING, output_data_type=DataType.INT64)

    if x.data_type not in (DataType.FLOAT32, DataType.FLOAT16):
        return found(x)
    is_nan = F.is_nan(x)
    has_nan = reduced(is_nan, function=ReduceFunction.MAX, axes=axes)
    of_nan = F.argmax(is_nan, axes, AxisDirection.INCREASING, output_data_type=DataType.INT64)
    return F.if_(has_nan, of_nan, found(with_equal_zeros(x)))


lowers("argmax.default")(functools.partial(_arg_extreme, True))
lowers("argmin.default")(functools.partial(_arg_extreme, False))


def _extreme_with_index(
    is_largest: bool, context: Context, x: Expression, dim: int, keepdim: bool = False
) -> tuple[Expression, ...]:
    function = ReduceFunction.MAX if is_largest else ReduceFunction.MIN
    return _extreme(function, context, x, dim), _arg_extreme(is_largest, context, x, dim)


lowers("max.dim", chooses=True)(functools.partial(_extreme_with_index, True))
lowers("min.dim", chooses=True)(functools.partial(_extreme_with_index, False))


@lowers("any.default", "any.dim", "any.dims")
def any_(context: Context, x: Expression, dim: Any = None, keepdim: bool = False) -> Expression:
    """Whether one is not 0."""
    return _reduced(context, context.truth(x), ReduceFunction.MAX, dim)


@lowers("all.default", "all.dim", "all.dims")
def all_(context: Context, x: Expression, dim: Any = None, keepdim: bool = False) -> Expression:
    """Whether none is 0."""
    return _reduced(context, context.truth(x), ReduceFunction.MIN, dim)


def _deviations(context: Context, x: Expression, dim: Any, correction: Any) -> tuple[Expression, Expression]:
    """Mean and variance, in FLOAT32: sums of squares are beyond FLOAT16."""
    own = context.cast(x, DataType.FLOAT32)
    middle = _reduced(context, own, ReduceFunction.AVERAGE, dim)
    centred = own - middle
    squares = _reduced(context, centred, ReduceFunction.SUM_SQUARE, dim)
    count = math.prod(own.sizes[axis] for axis in axes_of(dim, own.ndim))
    divisor = count - (1 if correction is None else float(correction))
    return middle, squares * (1.0 / divisor) if divisor > 0 else squares / context.tensor(0.0, own.data_type)


@lowers("var.correction", "var.dim")
def variance(
    context: Context,
    x: Expression,
    dim: Any = None,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> Expression:
    return _deviations(context, x, dim, correction if correction is not None else int(unbiased))[1]


@lowers("var_mean.correction")
def var_mean(
    context: Context, x: Expression, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> tuple[Expression, ...]:
    context.result = context.result[0]
    middle, found = _deviations(context, x, dim, correction)
    return found, middle


@lowers("cumsum.default")
def cumsum(context: Context, x: Expression, dim: int, **_: Any) -> Expression:
    """The running sum."""
    return F.cumsum(context.tensor(x), axis=axis_of(dim, x.ndim))


@lowers("cumprod.default")
def cumprod(context: Context, x: Expression, dim: int, **_: Any) -> Expression:
    return F.cumprod(context.tensor(x), axis=axis_of(dim, x.ndim))


@lowers("_softmax.default", "softmax.int")
def softmax(context: Context, x: Expression, dim: int, *_: Any) -> Expression:
    """Shares of powers of e."""
    return F.activation_softmax1(context.tensor(x), axes=[axis_of(dim, x.ndim)])


@lowers("_log_softmax.default", "log_softmax.int")
def log_softmax(context: Context, x: Expression, dim: int, *_: Any) -> Expression:
    return F.activation_log_softmax1(context.tensor(x), axes=[axis_of(dim, x.ndim)])


@lowers("_softmax_backward_data.default")
def softmax_backward(context: Context, gradient: Expression, y: Expression, dim: int, *_: Any) -> Expression:
    """Y (gradient - sum of gradient y)."""
    gradient, y = context.tensor(gradient), context.tensor(y)
    together = gradient * y
    return together - y * reduced(together, function=ReduceFunction.SUM, axes=[axis_of(dim, y.ndim)])


@lowers("_log_softmax_backward_data.default")
def log_softmax_backward(context: Context, gradient: Expression, y: Expression, dim: int, *_: Any) -> Expression:
    """Gradient - exp(y) times its sum."""
    gradient, y = context.tensor(gradient), context.tensor(y)
    return gradient - F.exp(y) * reduced(gradient, function=ReduceFunction.SUM, axes=[axis_of(dim, y.ndim)])


@lowers("native_layer_norm.default")
def layer_norm(
    context: Context, x: Expression, shape: Sequence[int], weight: Any, bias: Any, epsilon: float
) -> tuple[Expression, ...]:
    """Normalized over the last axes; mean and the inverse of the deviation."""
    context.result = context.result[0]
    own = context.tensor(x)
    axes = list(range(own.ndim - len(shape), own.ndim))
    made = F.mean_variance_normalization2(
        own,
        axes=axes,
        use_mean=True,
        use_variance=True,
        epsilon=epsilon,
        scale=None if weight is None else context.tensor(weight).broadcast_to(own.sizes),
        bias=None if bias is None else context.tensor(bias).broadcast_to(own.sizes),
    )
    wide = context.cast(own, DataType.FLOAT32)
    middle = reduced(wide, function=ReduceFunction.AVERAGE, axes=axes)
    spread = reduced(wide - middle, function=ReduceFunction.SUM_SQUARE, axes=axes) * (1.0 / math.prod(shape))
    return made, middle, F.recip(F.sqrt(spread + epsilon))


@lowers("native_group_norm.default")
def group_norm(
    context: Context,
    x: Expression,
    weight: Any,
    bias: Any,
    batch: int,
    channels: int,
    inner: int,
    groups: int,
    epsilon: float,
) -> tuple[Expression, ...]:
    """Normalized over groups of channels; mean and the inverse of the deviation."""
    context.result = context.result[0]
    own = context.tensor(x)
    grouped = context.reshaped(own, (batch, groups, channels // groups * inner))
    made = F.mean_variance_normalization2(grouped, axes=[2], use_mean=True, use_variance=True, epsilon=epsilon)
    by_channel = context.reshaped(made, (batch, channels, inner))
    if weight is not None:
        by_channel = by_channel * context.reshaped(context.tensor(weight), (1, channels, 1))
    if bias is not None:
        by_channel = by_channel + context.reshaped(context.tensor(bias), (1, channels, 1))
    wide = context.cast(grouped, DataType.FLOAT32)
    middle = reduced(wide, function=ReduceFunction.AVERAGE, axes=[2])
    count = channels // groups * inner
    spread = reduced(wide - middle, function=ReduceFunction.SUM_SQUARE, axes=[2]) * (1.0 / count)
    return context.reshaped(by_channel, x.sizes), middle, F.recip(F.sqrt(spread + epsilon))


@lowers("_native_batch_norm_legit_no_training.default")
def batch_norm(
    context: Context,
    x: Expression,
    weight: Any,
    bias: Any,
    mean: Expression,
    variance: Expression,
    momentum: float,
    epsilon: float,
) -> tuple[Expression | None, ...]:
    """With mean and variance as they were learned."""
    context.result = context.result[0]
    own = context.cast(context.tensor(x), mean.data_type)  # FLOAT16 has no large variances
    channels = own.sizes[1]

    def along(value: Any, default: float) -> Expression:
        if value is None:
            return context.tensor(default, own.data_type).broadcast_to((1, channels, *[1] * (own.ndim - 2)))
        return context.reshaped(context.tensor(value, own.data_type), (1, channels, *[1] * (own.ndim - 2)))

    made = F.batch_normalization(
        own, along(mean, 0), along(variance, 1), along(weight, 1), along(bias, 0), spatial=True, epsilon=epsilon
    )
    return made, None, None


@lowers("_native_batch_norm_legit_functional.default")
def batch_norm_training(
    context: Context,
    x: Expression,
    weight: Any,
    bias: Any,
    mean: Expression,
    variance: Expression,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[Expression, ...]:
    """With the batch's own mean and variance, which go into those that are learned."""
    if not training:
        raise NotLowered("as in inference")
    context.result = context.result[0]
    own = context.cast(x, DataType.FLOAT32)  # as sums of squares need it, and statistics that run
    shape = (1, own.sizes[1], *[1] * (own.ndim - 2))
    axes = [axis for axis in range(own.ndim) if axis != 1]
    middle = reduced(own, function=ReduceFunction.AVERAGE, axes=axes)
    count = math.prod(own.sizes) // own.sizes[1]
    spread = reduced(own - middle, function=ReduceFunction.SUM_SQUARE, axes=axes) * (1.0 / count)
    inverse = F.recip(F.sqrt(spread + epsilon))
    made = (own - middle) * inverse
    if weight is not None:
        made = made * context.reshaped(context.tensor(weight, own.data_type), shape)
    if bias is not None:
        made = made + context.reshaped(context.tensor(bias, own.data_type), shape)
    wide = count / max(count - 1, 1)
    learned = [context.reshaped(context.tensor(value, own.data_type), shape) for value in (mean, variance)]
    means = learned[0] * (1 - momentum) + middle * momentum
    variances = learned[1] * (1 - momentum) + spread * (momentum * wide)
    return made, middle, inverse, means, variances
