"""Products of matrices, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dmlvk import functions as F
from dmlvk.graphs.expression import Expression
from dmlvk.operators.convolution import ConvolutionDirection
from dmlvk.operators.members import ReduceFunction
from dmlvk.torch.lowering import Context, NotLowered, is_number, lowers, reduced


def _floats(context: Context) -> None:
    """Products of integers are left to the CPU."""
    if not context.dtype.is_floating_point:
        raise NotLowered("a product of integers")


@lowers("mm.default", "bmm.default", "matmul.default")
def matmul(context: Context, a: Expression, b: Expression) -> Expression:
    """A product of matrices."""
    _floats(context)
    return F.matmul(context.tensor(a), context.tensor(b))


@lowers("mv.default", "dot.default")
def vector_product(context: Context, a: Expression, b: Expression) -> Expression:
    """A product with a vector."""
    _floats(context)
    rows = a if len(context.shape) else context.reshaped(a, (1, -1 if a.ndim else 1))
    return F.matmul(context.tensor(rows), context.reshaped(context.tensor(b), (b.sizes[0], 1)))


@lowers("addmm.default")
def addmm(context: Context, c: Expression, a: Expression, b: Expression, beta: Any = 1, alpha: Any = 1) -> Expression:
    """Beta c + alpha a b."""
    _floats(context)
    if isinstance(beta, Expression) or isinstance(alpha, Expression):  # not known before a run
        return baddbmm(context, c, a, b, beta, alpha)
    rows, columns = context.shape
    parts = [context.tensor(part) for part in (a, b)]
    bias = context.tensor(c).broadcast_to((1, 1, rows, columns))
    four = [part.reinterpret((1, 1, *part.sizes), (0, 0, *part.tensor.element_strides)) for part in parts]
    return F.gemm(four[0], four[1], bias, alpha=float(alpha), beta=float(beta))


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
    """The gradients of input, weights and bias of a convolution of two dimensions without groups.

    That of the input is a transposed convolution of the gradient; that of the weights a convolution of the input with
    the gradient, where batches and channels have changed places and strides and dilations, too.
    """
    if transposed or groups != 1 or x.ndim != 4 or any(output_padding):
        raise NotLowered("gradients of transposed, grouped, or other than two-dimensional convolutions")
    first = next(item for item in context.result if item is not None)
    context.result = first
    _floats(context)
    gradient, x, weight = (context.tensor(part) for part in (gradient, x, weight))
    made: list[Expression | None] = [None, None, None]
    if wanted[0]:
        rests = [
            x.sizes[2 + i] - ((gradient.sizes[2 + i] - 1) * stride[i] - 2 * padding[i] + _extent(weight, dilation, i))
            for i in range(2)
        ]
        made[0] = F.convolution(
            gradient,
            weight,
            direction=ConvolutionDirection.BACKWARD,
            strides=list(stride),
            dilations=list(dilation),
            start_padding=list(padding),
            end_padding=list(padding),
            output_padding=rests,
            output_sizes=x.sizes,
        )
    if wanted[1]:
        whole = F.convolution(
            F.identity(x.transpose([1, 0, 2, 3])),
            F.identity(gradient.transpose([1, 0, 2, 3])),
            strides=list(dilation),
            dilations=list(stride),
            start_padding=list(padding),
            end_padding=list(padding),
        )
        made[1] = whole[:, :, : weight.sizes[2], : weight.sizes[3]].transpose([1, 0, 2, 3])
    if wanted[2]:
        made[2] = reduced(gradient, function=ReduceFunction.SUM, axes=[0, 2, 3])
    return tuple(made)


def _extent(weight: Expression, dilation: Sequence[int], axis: int) -> int:
    """Elements that a window reaches over."""
    return int(dilation[axis] * (weight.sizes[2 + axis] - 1) + 1)


@lowers("_cdist_forward.default")
def distances(context: Context, a: Expression, b: Expression, p: float, mode: int | None) -> Expression:
    """Between every row of one and of the other: sums of magnitudes, Euclid's, or the largest magnitude."""
    *batch, rows, columns = context.shape
    every = (math.prod(batch), rows, columns, a.sizes[-1])
    if p not in (1, 2, math.inf) or math.prod(every) > 2**26:
        raise NotLowered("distances by another norm, or of very many rows")
    first, second = (
        context.reshaped(context.tensor(each).broadcast_to((*batch, *each.sizes[-2:])), shape)
        for each, shape in ((a, (every[0], rows, 1, every[3])), (b, (every[0], 1, columns, every[3])))
    )
    apart = F.abs(first.broadcast_to(every) - second.broadcast_to(every))
    functions = {1: ReduceFunction.SUM, 2: ReduceFunction.L2, math.inf: ReduceFunction.MAX}
    return context.reshaped(reduced(apart, function=functions[p], axes=[3]), context.shape)
