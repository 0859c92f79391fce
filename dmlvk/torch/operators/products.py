"""Products of matrices, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from dmlvk import functions as F
from dmlvk.datatypes import DataType
from dmlvk.graphs.expression import Expression
from dmlvk.kernels.composed import matrix_attention
from dmlvk.objects.compilation import ExecutionFlags
from dmlvk.operators.attention import MultiheadAttentionMaskType
from dmlvk.operators.convolution import ConvolutionDirection
from dmlvk.operators.members import ReduceFunction
from dmlvk.torch.lowering import Context, NotLowered, is_number, lowers, reduced


def _floats(context: Context) -> None:
    """Products of integers are left to the CPU."""
    if not context.dtype.is_floating_point:
        raise NotLowered("a product of integers")


@lowers("mm.default", "bmm.default", "matmul.default")
def matmul(context: Context, a: Expression, b: Expression) -> Expression:
    _floats(context)
    return F.matmul(context.tensor(a), context.tensor(b))


@lowers("mv.default", "dot.default")
def vector_product(context: Context, a: Expression, b: Expression) -> Expression:
    _floats(context)
    rows = a if len(context.shape) else context.reshaped(a, (1, -1 if a.ndim else 1))
    return F.matmul(context.tensor(rows), context.reshaped(context.tensor(b), (b.sizes[0], 1)))


@lowers("addmm.default")
def addmm(context: Context, c: Expression, a: Expression, b: Expression, beta: Any = 1, alpha: Any = 1) -> Expression:
    _floats(context)
    if isinstance(beta, Expression) or isinstance(alpha, Expression):  # not known before a run
        return baddbmm(context, c, a, b, beta, alpha)
    rows, columns = context.shape
    parts = [context.tensor(part) for part in (a, b)]
    # Times 0 it is not read: NaN would stay.
    bias = None if is_number(beta, 0) else context.tensor(c).broadcast_to((1, 1, rows, columns))
    four = [part.reinterpret((1, 1, *part.sizes), (0, 0, *part.tensor.element_strides)) for part in parts]
    return F.gemm(four[0], four[1], bias, alpha=float(alpha), beta=float(beta) if bias is not None else 0.0)


@lowers("baddbmm.default")
def baddbmm(context: Context, c: Expression, a: Expression, b: Expression, beta: Any = 1, alpha: Any = 1) -> Expression:
    """Beta c + alpha a b, batch by batch."""
    made = matmul(context, a, b)
    made = made if is_number(alpha, 1) else made * context.tensor(alpha)
    return made if is_number(beta, 0) else made + context.tensor(c) * context.tensor(beta)


@lowers("convolution.default")
def convolution(
    context: Context,
    x: Expression,
    weight: Expression,
    bias: Expression | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Expression:
    """A convolution of 1 to 3 dimensions, or its transpose."""
    _floats(context)
    spatial = x.ndim - 2
    if spatial not in (1, 2, 3):
        raise NotLowered(f"a convolution of {spatial} dimensions")
    numbers = [list(given) if len(given) == spatial else list(given) * spatial for given in (stride, padding, dilation)]
    ends = list(output_padding) if len(output_padding) == spatial else list(output_padding) * spatial
    x, weight = context.tensor(x), context.tensor(weight)
    if spatial == 1:
        x, weight = (context.reshaped(part, (*part.sizes[:2], 1, part.sizes[2])) for part in (x, weight))
        numbers = [[1, *numbers[0]], [0, *numbers[1]], [1, *numbers[2]]]
        ends = [0, *ends]
    strides, paddings, dilations = numbers
    if bias is not None:
        bias = context.reshaped(context.tensor(bias), (1, bias.sizes[0], *[1] * (x.ndim - 2)))
    shape = context.shape
    sizes = shape if spatial > 1 else (*shape[:2], 1, shape[2])
    return F.convolution(
        x,
        weight,
        bias,
        direction=ConvolutionDirection.BACKWARD if transposed else ConvolutionDirection.FORWARD,
        strides=strides,
        dilations=dilations,
        start_padding=paddings,
        end_padding=paddings,
        output_padding=ends,
        group_count=groups,
        output_sizes=sizes,
    )


@lowers("convolution_backward.default")
def convolution_backward(
    context: Context,
    gradient: Expression,
    x: Expression,
    weight: Expression,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Expression | None, ...]:
    """The gradients of input, weights and bias of a convolution of 1 to 3 dimensions, or of its transpose.

    That of the input is the opposite convolution of the gradient; that of the weights a convolution of the input with
    the gradient, where batches and channels have changed places and strides and dilations, too. Of a transposed
    convolution input and gradient have changed places.
    """
    spatial = x.ndim - 2
    if spatial not in (1, 2, 3):
        raise NotLowered(f"a convolution of {spatial} dimensions")
    context.result = next(item for item in context.result if item is not None)
    _floats(context)
    gradient, x, weight = (context.tensor(part) for part in (gradient, x, weight))
    numbers = [list(one) if len(one) == spatial else list(one) * spatial for one in (stride, padding, dilation)]
    if spatial == 1:
        gradient, x, weight = (context.reshaped(p, (*p.sizes[:2], 1, p.sizes[2])) for p in (gradient, x, weight))
        numbers = [[1, *numbers[0]], [0, *numbers[1]], [1, *numbers[2]]]
    strides, paddings, dilations = numbers
    around: dict[str, Any] = {"start_padding": paddings, "end_padding": paddings, "group_count": groups}
    made: list[Expression | None] = [None, None, None]
    if wanted[0]:
        extents = [d * (size - 1) + 1 for d, size in zip(dilations, weight.sizes[2:], strict=True)]
        steps = zip(x.sizes[2:], gradient.sizes[2:], strides, paddings, extents, strict=True)
        rests = [own - ((size - 1) * s - 2 * p + extent) for own, size, s, p, extent in steps]
        kind = ConvolutionDirection.FORWARD if transposed else ConvolutionDirection.BACKWARD
        more: dict[str, Any] = {} if transposed else {"output_padding": rests, "output_sizes": x.sizes}
        whole = F.convolution(gradient, weight, direction=kind, strides=strides, dilations=dilations, **around, **more)
        made[0] = whole[tuple(slice(0, size) for size in x.sizes)]
    if wanted[1]:
        source, filters = (gradient, x) if transposed else (x, gradient)
        batch, channels, *space = source.sizes
        order = [2, 1, 0, *range(3, 3 + len(space))]
        parts = context.reshaped(source, (batch, groups, channels // groups, *space)).transpose(order)
        swap = [1, 0, *range(2, 2 + len(space))]
        whole = F.convolution(
            context.reshaped(F.identity(parts), (channels // groups, groups * batch, *space)),
            F.identity(filters.transpose(swap)),
            strides=dilations,
            dilations=strides,
            **around,
        )
        key = slice(None), slice(None), *(slice(0, size) for size in weight.sizes[2:])
        made[1] = whole[key].transpose(swap)
    if wanted[2]:
        axes = [axis for axis in range(gradient.ndim) if axis != 1]
        made[2] = reduced(gradient, function=ReduceFunction.SUM, axes=axes)
    return tuple(made)


@lowers("_cdist_forward.default")
def distances(context: Context, a: Expression, b: Expression, p: float, mode: int | None) -> Expression:
    """Between every row of one and of the other: how many numbers differ, Euclid's distance, others by their norms."""
    *batch, rows, columns = context.shape
    every = (math.prod(batch), rows, columns, a.sizes[-1])
    if math.prod(every) > 2**26:
        raise NotLowered("distances of very many rows")
    first, second = (
        context.reshaped(context.tensor(each).broadcast_to((*batch, *each.sizes[-2:])), shape)
        for each, shape in ((a, (every[0], rows, 1, every[3])), (b, (every[0], 1, columns, every[3])))
    )
    apart = F.abs(first.broadcast_to(every) - second.broadcast_to(every))
    function = {2: ReduceFunction.L2, math.inf: ReduceFunction.MAX}.get(p, ReduceFunction.SUM)
    if p == 0:
        apart = F.sign(apart)
    elif function is ReduceFunction.SUM and p != 1:
        apart = F.constant_pow(apart, exponent=p)
    made = reduced(apart, function=function, axes=[3])
    if function is ReduceFunction.SUM and p not in (0, 1):
        made = F.constant_pow(made, exponent=1 / p)
    return context.reshaped(made, context.shape)


@lowers("scaled_dot_product_attention.default")
def attention(
    context: Context,
    query: Expression,
    key: Expression,
    value: Expression,
    mask: Expression | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Expression:
    """Of several heads (Vaswani et al., 2017), for the device's arithmetic: one kernel where it has matrices."""
    has_form = context.dtype in (torch.float32, torch.float16) and query.ndim == key.ndim == value.ndim == 4
    if dropout or not has_form:
        raise NotLowered("attention of other forms")
    batch, heads, queries, size = query.sizes
    _, key_heads, keys, value_size = value.sizes
    if key.sizes != (batch, key_heads, keys, size) or value.sizes[0] != batch or heads % key_heads:
        raise NotLowered("keys or values that are broadcast")
    shape = matrix_attention.Shape(batch, heads, queries, keys, size, value_size)
    target = context.graph.device.target_for(ExecutionFlags.NONE)
    is_one_kernel = matrix_attention.tile_of(target, context.data_type, shape) is not None
    # one after another, FLOAT16 scores would leave its range
    computed = context.data_type if is_one_kernel else DataType.FLOAT32
    query, key, value = (
        context.cast(
            context.reshaped(each.transpose([0, 2, 1, 3]), (batch, each.sizes[2], each.sizes[1] * each.sizes[3])),
            computed,
        )
        for each in (query, key, value)
    )
    added = _added(context, _hidden(context, queries, keys) if is_causal else mask)
    made = F.multihead_attention1(
        size**-0.5 if scale is None else context.plain(scale),
        0.0,
        heads,
        key_heads,
        MultiheadAttentionMaskType.NONE,
        query,
        key,
        value,
        relative_position_bias=(
            None if added is None else context.cast(added, computed).broadcast_to((batch, heads, queries, keys))
        ),
    )[0]
    made = context.reshaped(context.cast(made, context.data_type), (batch, queries, heads, value_size))
    made = made.transpose([0, 2, 1, 3])
    if mask is None or added is None:
        return made
    is_hidden = context.cast(F.equal(added, context.tensor(-math.inf)), context.data_type)
    sees_none = context.truth(reduced(is_hidden, function=ReduceFunction.MIN, axes=[3]))
    return F.if_(sees_none, context.tensor(0), made)


def _added(context: Context, mask: Expression | None) -> Expression | None:
    """What is added to scores, with four axes."""
    if mask is None:
        return None
    if mask.is_truth:
        mask = F.if_(mask, context.tensor(0), context.tensor(-math.inf))
    return context.reshaped(context.tensor(mask), (*[1] * (4 - mask.ndim), *mask.sizes))


def _hidden(context: Context, queries: int, keys: int) -> Expression:
    """What is added to scores so that no query sees keys behind its own."""
    rows, columns = (
        F.fill_value_sequence(0, 1, output_data_type=DataType.INT32, output_sizes=sizes, graph=context.graph)
        for sizes in ((1, 1, queries, 1), (1, 1, 1, keys))
    )
    return F.if_(columns <= rows, context.tensor(0), context.tensor(-math.inf))
