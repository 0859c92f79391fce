"""Pools, and pictures of other sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import ReduceFunction
from dmlvk.operators.resampling import InterpolationMode
from dmlvk.torch.lowering import Context, NotLowered, lowers, reduced, with_equal_zeros


def _all(given: Sequence[int], count: int) -> list[int]:
    return list(given) if len(given) == count else list(given) * count


def _with_batch(context: Context, x: Expression, spatial: int) -> Expression:
    """With a batch of one before it, where it has none."""
    return x if x.ndim == spatial + 2 else context.reshaped(x, (1, *x.sizes))


def _ends(
    x: Expression, shape: Sequence[int], window: list[int], stride: list[int], padding: list[int], dilation: list[int]
) -> list[int]:
    """How far windows reach beyond the end: further than the padding, where sizes are rounded up."""
    return [
        max((out - 1) * s + d * (w - 1) + 1 - size - p, 0)
        for out, size, w, s, p, d in zip(
            shape[-len(window) :], x.sizes[-len(window) :], window, stride, padding, dilation, strict=True
        )
    ]


@lowers("max_pool2d_with_indices.default", chooses=True)
def max_pool(
    context: Context,
    x: Expression,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Expression, ...]:
    """The largest element of each window, and where the first of them lies in its plane; the last NaN, if any."""
    shape = context.shape
    windows, paddings, dilations = _all(window, 2), _all(padding, 2), _all(dilation, 2)
    strides = _all(stride, 2) if stride else windows
    own = _with_batch(context, x, 2)
    plane = context.tensor(own.sizes[2] * own.sizes[3], DataType.INT64)
    ends = _ends(own, shape, windows, strides, paddings, dilations)

    def pooled(values: Expression) -> tuple[Expression, Expression]:
        sizes = (*own.sizes[:2], *shape[-2:])
        made, places = F.max_pooling2(
            values, windows, strides, paddings, ends, dilations, output_sizes=sizes, with_indices=True
        )
        return made, F.modulus_floor(context.cast(places, DataType.INT64), plane)

    values, inside = pooled(with_equal_zeros(own) if context.is_read(1) else own)
    if own.data_type not in (DataType.FLOAT32, DataType.FLOAT16) or math.prod(own.sizes[2:]) >= 2**24:
        return values, inside
    # From 1 on; FLOAT32 has all of these integers.
    places = F.fill_value_sequence(
        1, 1, output_data_type=DataType.FLOAT32, output_sizes=(1, 1, *own.sizes[2:]), graph=context.graph
    )
    nothing = context.tensor(0, DataType.FLOAT32).broadcast_to(own.sizes)
    last_nan, _ = pooled(F.if_(F.is_nan(own), places.broadcast_to(own.sizes), nothing))
    is_nan = last_nan > 0
    nan = context.tensor(math.nan, own.data_type)
    return F.if_(is_nan, nan, values), F.if_(is_nan, context.cast(last_nan, DataType.INT64) - 1, inside)


@lowers("max_pool2d_with_indices_backward.default")
def max_pool_backward(
    context: Context,
    gradient: Expression,
    x: Expression,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Expression,
) -> Expression:
    """Each window's gradient goes to its first largest element; those of several windows are added up."""
    windows, paddings, dilations = _all(window, 2), _all(padding, 2), _all(dilation, 2)
    strides = _all(stride, 2) if stride else windows
    own, gradients = (_with_batch(context, part, 2) for part in (x, context.tensor(gradient)))
    ends = _ends(own, gradients.sizes, windows, strides, paddings, dilations)
    return F.max_pooling_grad(with_equal_zeros(own), gradients, strides, windows, paddings, ends, dilations)


@lowers("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def average_pool(
    context: Context,
    x: Expression,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Expression:
    spatial = len(window) if len(window) > 1 else (2 if x.ndim >= 3 and len(context.shape) >= 3 else 1)
    shape = context.shape
    windows, paddings = _all(window, spatial), _all(padding, spatial)
    strides = _all(stride, spatial) if stride else windows
    own = _with_batch(context, x, spatial)
    if spatial == 1:
        own = context.reshaped(own, (*own.sizes[:2], 1, own.sizes[2]))
        windows, strides, paddings = [1, *windows], [1, *strides], [0, *paddings]
        shape = (*shape[:-1], 1, shape[-1])
    ends = _ends(own, shape, windows, strides, paddings, [1] * len(windows))
    if divisor is not None or (count_include_pad and any(e > p for e, p in zip(ends, paddings, strict=True))):
        raise NotLowered("means with a divisor of their own")
    return F.average_pooling1(
        own, windows, count_include_pad, strides, paddings, ends, output_sizes=(*own.sizes[:2], *shape[-len(windows) :])
    )


@lowers("_adaptive_avg_pool2d.default", "adaptive_avg_pool2d.default")
def adaptive_average_pool(context: Context, x: Expression, sizes: Sequence[int]) -> Expression:
    """The means of parts of a plane, where these are equal."""
    shape = context.shape
    own = _with_batch(context, x, 2)
    if shape[-2:] == (1, 1):
        return reduced(own, function=ReduceFunction.AVERAGE, axes=[2, 3])
    if own.sizes[2] % shape[-2] or own.sizes[3] % shape[-1]:
        raise NotLowered("parts of different sizes")
    windows = [own.sizes[2] // shape[-2], own.sizes[3] // shape[-1]]
    return F.average_pooling1(own, windows, False, windows)


@lowers("_adaptive_avg_pool3d.default")
def adaptive_average_pool_in_space(context: Context, x: Expression, sizes: Sequence[int]) -> Expression:
    """The means of parts of a space, where these are equal: of each axis in its own."""
    shape, own = context.shape, x
    apart: list[int] = list(x.sizes[:-3])
    for size, count in zip(x.sizes[-3:], shape[-3:], strict=True):
        if size % count:
            raise NotLowered("parts of different sizes")
        apart += [count, size // count]
    first = len(apart) - 6
    if len(apart) > 8:  # what is before is one axis
        apart, first = [math.prod(apart[:first]), *apart[first:]], 1
    means = reduced(
        context.reshaped(own, apart), function=ReduceFunction.AVERAGE, axes=[first + 1, first + 3, first + 5]
    )
    return context.reshaped(means, shape)


@lowers("avg_pool2d_backward.default")
def average_pool_backward(
    context: Context,
    gradient: Expression,
    x: Expression,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Expression:
    """Each window's gradient goes to its elements in equal parts."""
    windows, paddings = _all(window, 2), _all(padding, 2)
    strides = _all(stride, 2) if stride else windows
    own, gradients = (_with_batch(context, part, 2) for part in (x, context.tensor(gradient)))
    ends = _ends(own, gradients.sizes, windows, strides, paddings, [1, 1])
    if divisor is not None or (count_include_pad and any(e > p for e, p in zip(ends, paddings, strict=True))):
        raise NotLowered("means with a divisor of their own")
    return F.average_pooling_grad(
        gradients, strides, windows, paddings, ends, count_include_pad, output_sizes=own.sizes
    )


@lowers("_adaptive_avg_pool2d_backward.default")
def adaptive_average_pool_backward(context: Context, gradient: Expression, x: Expression) -> Expression:
    """Each part's gradient goes to its elements in equal parts, where parts are equal."""
    *before, height, width = context.shape
    rows, columns = gradient.sizes[-2:]
    if height % rows or width % columns:
        raise NotLowered("parts of different sizes")
    inside = height // rows, width // columns
    count = math.prod(before)
    parts, size = context.operands(gradient, inside[0] * inside[1])
    each = context.reshaped(parts, (count, rows, 1, columns, 1)) / size
    return context.reshaped(each.broadcast_to((count, rows, inside[0], columns, inside[1])), context.shape)


@lowers("upsample_nearest2d.vec", "upsample_nearest2d.default")
def upsample_nearest(context: Context, x: Expression, *arguments: Any) -> Expression:
    return _resampled(context, x, InterpolationMode.NEAREST_NEIGHBOR, 0.0, 0.0, arguments)


@lowers("upsample_bilinear2d.vec", "upsample_bilinear2d.default")
def upsample_bilinear(context: Context, x: Expression, size: Any, align_corners: bool, *arguments: Any) -> Expression:
    if align_corners:
        raise NotLowered("corners that lie on one another")
    return _resampled(context, x, InterpolationMode.LINEAR, 0.5, -0.5, (size, *arguments))


def _resampled(
    context: Context, x: Expression, mode: InterpolationMode, before: float, behind: float, arguments: Any
) -> Expression:
    shape = context.shape
    given = next((item for item in arguments[1:] if isinstance(item, (list, tuple))), arguments[1:3])
    factors = [shape[2 + axis] / x.sizes[2 + axis] for axis in range(2)]
    factors = [factor or own for factor, own in zip(given, factors, strict=True)] if len(given) == 2 else factors
    if mode is InterpolationMode.NEAREST_NEIGHBOR and any(shape[2 + axis] % x.sizes[2 + axis] for axis in range(2)):
        raise NotLowered("nearest elements of other than whole multiples")
    return F.resample1(
        context.tensor(x),
        interpolation_mode=mode,
        scales=[1.0, 1.0, *factors],
        input_pixel_offsets=[before] * 4 if mode is InterpolationMode.LINEAR else [0.5] * 4,
        output_pixel_offsets=[behind] * 4 if mode is InterpolationMode.LINEAR else [-0.5] * 4,
        output_sizes=shape,
    )
