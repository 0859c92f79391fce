"""What moves elements, or makes tensors of known ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.rearrangement import PaddingMode
from dmlvk.torch.lowering import Context, NotLowered, lowers

_FAR = 2**62  # Where slices without an end end


@lowers("view.default", "_unsafe_view.default", "reshape.default", "unsqueeze.default", "squeeze.default", chooses=True)
@lowers("squeeze.dim", "squeeze.dims", "flatten.using_ints", chooses=True)
def reshape(context: Context, x: Expression, *_: Any) -> Expression:
    return context.reshaped(x, context.shape)


@lowers("permute.default", chooses=True)
def permute(context: Context, x: Expression, dims: Sequence[int]) -> Expression:
    return x.transpose([axis % len(dims) for axis in dims]) if dims else x


@lowers("transpose.int", chooses=True)
def transpose(context: Context, x: Expression, first: int, second: int) -> Expression:
    order = list(range(len(context.shape)))
    if order:
        order[first], order[second] = order[second], order[first]
    return x.transpose(order) if order else x


@lowers("t.default", chooses=True)
def matrix_transpose(context: Context, x: Expression) -> Expression:
    return x.T if len(context.shape) == 2 else x


@lowers("expand.default", chooses=True)
def expand(context: Context, x: Expression, *_: Any, **__: Any) -> Expression:
    """Repeated by strides."""
    return x.broadcast_to(context.shape or (1,))


@lowers("slice.Tensor", chooses=True)
def slice_(
    context: Context, x: Expression, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Expression:
    key: list[Any] = [slice(None)] * x.ndim
    key[dim] = slice(start, None if end is None or end >= _FAR else end, step)
    return x[tuple(key)]


@lowers("select.int", chooses=True)
def select(context: Context, x: Expression, dim: int, index: int) -> Expression:
    """One place of an axis, which goes."""
    key: list[Any] = [slice(None)] * x.ndim
    key[dim] = index
    return x[tuple(key)]


@lowers("diagonal.default", chooses=True)
def diagonal(context: Context, x: Expression, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expression:
    """Elements whose places along two axes differ by so much, as the last axis."""
    first, second = dim1 % x.ndim, dim2 % x.ndim
    key: list[Any] = [slice(None)] * x.ndim
    key[second if offset > 0 else first] = slice(abs(offset), None)
    part = x[tuple(key)]
    others = [axis for axis in range(x.ndim) if axis not in (first, second)]
    strides = part.tensor.element_strides
    steps = [*(strides[axis] for axis in others), strides[first] + strides[second]]
    return part.reinterpret(context.shape, steps)


@lowers("as_strided.default", chooses=True)
def as_strided(
    context: Context, x: Expression, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Expression:
    if storage_offset:
        raise NotLowered("memory from another element on than the first one")
    if not x.tensor.is_packed:
        x = F.identity(x)
    return x.reinterpret(context.shape or (1,), list(stride) or [1])


@lowers("cat.default")
def cat(context: Context, tensors: Sequence[Expression], dim: int = 0) -> Expression:
    parts = [context.tensor(tensor) for tensor in tensors]
    return F.concatenate(parts, axis=dim % len(context.shape))


@lowers("stack.default")
def stack(context: Context, tensors: Sequence[Expression], dim: int = 0) -> Expression:
    """Behind one another along a new axis."""
    rank = len(context.shape)
    size = context.shape
    parts = []
    for tensor in tensors:
        shape = [1 if axis == dim % rank else size[axis] for axis in range(rank)]
        parts.append(context.reshaped(context.tensor(tensor), shape))
    return F.concatenate(parts, axis=dim % rank)


@lowers("split_with_sizes.default", "split.Tensor", "chunk.default", "unbind.int", chooses=True)
def split(context: Context, x: Expression, sizes: Any = None, dim: int = 0) -> tuple[Expression | None, ...]:
    """Parts along an axis; ``None`` for those without elements, which nothing reads."""
    if isinstance(context.result, (list, tuple)) and len(context.result[0].shape) < x.ndim:
        raise NotLowered("unbind is taken apart before")
    parts: list[Expression | None] = []
    start = 0
    for example in context.result:
        count = example.shape[dim]
        parts.append(slice_(context, x, dim, start, start + count) if count else None)
        start += count
    return tuple(parts)


@lowers("repeat.default", chooses=True)
def repeat(context: Context, x: Expression, repeats: Sequence[int]) -> Expression:
    """Copies behind one another."""
    if not repeats:  # of a tensor without axes
        return x
    shape = (1,) * (len(repeats) - x.ndim) + x.sizes
    return F.tile(context.reshaped(x, shape), repeats=list(repeats))


@lowers("flip.default", chooses=True)
def flip(context: Context, x: Expression, dims: Sequence[int]) -> Expression:
    """Backwards along some axes."""
    key: list[Any] = [slice(None)] * x.ndim
    for axis in dims:
        key[axis] = slice(None, None, -1)
    return x[tuple(key)]


@lowers("constant_pad_nd.default")
def constant_pad(context: Context, x: Expression, pad: Sequence[int], value: float = 0) -> Expression:
    """A border of one value; negative widths cut off."""
    exact = (
        int(value != 0) if context.dtype is torch.bool else context.plain(value) if x.data_type.is_float else int(value)
    )
    return _padded(x, pad, PaddingMode.CONSTANT, exact)


@lowers("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default", chooses=True)
def reflection_pad(context: Context, x: Expression, pad: Sequence[int]) -> Expression:
    """A border of mirrored elements."""
    return _padded(x, pad, PaddingMode.REFLECTION)


@lowers("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default", chooses=True)
def replication_pad(context: Context, x: Expression, pad: Sequence[int]) -> Expression:
    """A border of the nearest elements."""
    return _padded(x, pad, PaddingMode.EDGE)


def _padded(x: Expression, pad: Sequence[int], mode: PaddingMode, value: float = 0.0) -> Expression:
    widths = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    key = tuple(slice(max(-start, 0), size - max(-end, 0)) for (start, end), size in zip(widths, x.sizes, strict=True))
    inside = x[key]
    starts, ends = [max(start, 0) for start, _ in widths], [max(end, 0) for _, end in widths]
    if not any((*starts, *ends)):
        return inside
    return F.padding1(inside, padding_mode=mode, padding_value=value, start_padding=starts, end_padding=ends)


# Tensors that follow from numbers.


@lowers("full.default", "full_like.default", "scalar_tensor.default", "new_full.default")
def full(context: Context, *arguments: Any, **named: Any) -> Expression:
    value = named.get("fill_value", arguments[-1])
    return context.tensor(context.stored(value)).broadcast_to(context.shape or (1,))


@lowers("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format", "empty_like.default")
def zeros(context: Context, *_: Any, **__: Any) -> Expression:
    """Zeros everywhere; also where contents do not matter."""
    return context.tensor(0).broadcast_to(context.shape or (1,))


@lowers("ones.default", "ones_like.default", "new_ones.default")
def ones(context: Context, *_: Any, **__: Any) -> Expression:
    return context.tensor(1).broadcast_to(context.shape or (1,))


@lowers("fill.Scalar", "fill.Tensor")
def fill(context: Context, x: Expression, value: Any) -> Expression:
    return full(context, value)


@lowers("arange.start_step", "arange.start", "arange.default")
def arange(context: Context, *bounds: Any, **_: Any) -> Expression:
    start, step = (bounds[0], bounds[2] if len(bounds) > 2 else 1) if len(bounds) > 1 else (0, 1)
    return F.fill_value_sequence(
        start, step, output_data_type=context.data_type, output_sizes=context.shape, graph=context.graph
    )


# Tensors put into others.


@lowers("select_scatter.default", chooses=True)
def select_scatter(context: Context, x: Expression, source: Expression, dim: int, index: int) -> Expression:
    axis = dim % x.ndim
    shape = [1 if position == axis else size for position, size in enumerate(x.sizes)]
    return _put(context, x, context.reshaped(source, shape), axis, index % x.sizes[axis])


@lowers("slice_scatter.default", chooses=True)
def slice_scatter(
    context: Context,
    x: Expression,
    source: Expression,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Expression:
    axis = dim % x.ndim
    if step != 1:
        raise NotLowered("a part with steps")
    first = 0 if start is None else start
    return _put(context, x, source, axis, first + x.sizes[axis] if first < 0 else first)


def _put(context: Context, x: Expression, part: Expression, axis: int, first: int) -> Expression:
    """What lies before, the part, and what lies behind."""
    last = first + part.sizes[axis]
    parts = [context.tensor(part)]
    if first:
        parts.insert(0, slice_(context, x, axis, 0, first))
    if last < x.sizes[axis]:
        parts.append(slice_(context, x, axis, last, x.sizes[axis]))
    return F.concatenate(parts, axis=axis) if len(parts) > 1 else parts[0]


def _in_order(x: Expression) -> Expression:
    """What has PyTorch's order: of floats integers, to which both zeros are one number and NaN is the largest."""
    if x.data_type not in (DataType.FLOAT32, DataType.FLOAT16):
        return x
    wide = F.cast(x, output_data_type=DataType.FLOAT32)
    bits = wide.reinterpret(wide.sizes, wide.tensor.element_strides, DataType.INT32)
    least, most = (x.graph.constant(number, DataType.INT32) for number in (-(2**31), 2**31 - 1))
    return F.if_(F.is_nan(x), most, F.if_(bits < 0, least - bits, bits))


@lowers("topk.default", chooses=True)
def topk(
    context: Context, x: Expression, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Expression, ...]:
    """The largest or smallest of each row, and their places; equal ones in the order of their places."""
    direction = AxisDirection.DECREASING if largest else AxisDirection.INCREASING
    axis, keys = dim % x.ndim, _in_order(x)
    values, indices = F.top_k1(keys, axis=axis, k=k, axis_direction=direction)
    if keys is not x:
        values = F.gather_elements(x, indices, axis=axis)
    return values, context.cast(indices, DataType.INT64)


@lowers("sort.default", "sort.stable", chooses=True)
def sort(context: Context, x: Expression, *arguments: Any, **named: Any) -> tuple[Expression, ...]:
    """Rows in order, and where their elements were; equal ones stay in theirs."""
    flags = [value for value in arguments if isinstance(value, bool)]
    whole = [value for value in arguments if not isinstance(value, bool) and isinstance(value, int)]
    dim = named.get("dim", whole[0] if whole else -1)
    descending = named.get("descending", flags[-1] if flags and "stable" not in named else False)
    if len(flags) > 1 or (flags and "stable" not in named and len(arguments) > 2):
        descending = flags[-1]
    axis = dim % x.ndim
    return topk(context, x, x.sizes[axis], axis, bool(descending))


@lowers("pixel_shuffle.default", chooses=True)
def pixel_shuffle(context: Context, x: Expression, upscale_factor: int) -> Expression:
    """Channels become blocks of pixels."""
    *batch, channels, height, width = x.sizes
    r = upscale_factor
    apart = context.reshaped(x, (math.prod(batch), channels // (r * r), r, r, height, width))
    return context.reshaped(apart.transpose([0, 1, 4, 2, 5, 3]), context.shape)
