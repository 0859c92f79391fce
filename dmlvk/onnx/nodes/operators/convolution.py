"""Convolutions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes import emptiness
from dmlvk.onnx.nodes.operators.matrix import product
from dmlvk.onnx.nodes.operators.movement import sliced
from dmlvk.onnx.nodes.translation import Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.onnx.nodes.window_counts import window_counts

_CROSS_CORRELATION = 1  # DML_CONVOLUTION_MODE
_FORWARD, _BACKWARD = 0, 1  # DML_CONVOLUTION_DIRECTION

_FEWEST_TAPS = 128  # Of a filter that is summed in two halves


@dataclasses.dataclass(frozen=True)
class Window:
    """A window that slides over the spatial axes, at least two of them."""

    size: tuple[int, ...]  # of the window
    strides: tuple[int, ...]  # how far it moves
    dilations: tuple[int, ...]  # how far its elements lie apart
    start: tuple[int, ...]  # padding before the first element
    end: tuple[int, ...]  # padding behind the last one

    @property
    def members(self) -> dict[str, Any]:
        return {
            "dimension_count": len(self.strides),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "start_padding": list(self.start),
            "end_padding": list(self.end),
        }

    def widened(self) -> Window:
        """With a first axis of its own for models that have only one: DirectML's operators want two."""
        if len(self.size) > 1:
            return self
        return Window((1, *self.size), (1, *self.strides), (1, *self.dilations), (0, *self.start), (0, *self.end))


def window_of(node: Node, sizes: tuple[int, ...], size: tuple[int, ...], *, output: tuple[int, ...]) -> Window:
    """The window of a convolution or a pool.

    Args:
        sizes: of the spatial axes of the input.
        output: of the spatial axes of the output.

    Raises:
        NotOnDevice: when there is none.
    """
    rank = len(sizes)
    strides = tuple(node.list("strides") or [1] * rank)
    dilations = tuple(node.list("dilations") or [1] * rank)
    pads = tuple(node.list("pads") or [0] * 2 * rank)
    if not len(size) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise NotOnDevice(f"kernel_shape, strides, dilations and pads do not fit {rank} spatial axes")
    if min((*size, *strides, *dilations), default=1) < 1 or min(pads, default=0) < 0:
        raise NotOnDevice("sizes, strides and dilations must be positive, pads not negative")
    start, end = list(pads[:rank]), list(pads[rank:])
    automatic = node.text("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        needed = [
            max(0, (out - 1) * stride + (width - 1) * dilation + 1 - length)
            for out, stride, width, dilation, length in zip(output, strides, size, dilations, sizes, strict=True)
        ]
        smaller, larger = [n // 2 for n in needed], [n - n // 2 for n in needed]
        start, end = (smaller, larger) if automatic == "SAME_UPPER" else (larger, smaller)
    elif automatic == "VALID":
        start = end = [0] * rank
    return Window(size, strides, dilations, tuple(start), tuple(end))


def cropped(node: Node, tensor: Tensor, size: Sequence[int], output: Sequence[int], *, from_short: int) -> Tensor:
    """Without the elements that SAME_* passes over before the first window, where strides are longer than windows.

    ONNX's formula for the padding is negative there, and ONNX Runtime reads it so: elements are left out. DirectML and
    TensorFlow take it as 0.

    Args:
        tensor: batch, channels, spatial axes.
        output: of the spatial axes of the output.
        from_short: from how many missing elements of padding on ONNX Runtime's operator counts them.
    """
    automatic, rank = node.text("auto_pad", "NOTSET"), tensor.rank - 2
    strides, dilations = node.list("strides") or [1] * rank, node.list("dilations") or [1] * rank
    if automatic not in ("SAME_UPPER", "SAME_LOWER") or not len(size) == len(strides) == len(dilations) == rank:
        return tensor
    later = automatic == "SAME_LOWER"
    passed = [
        max(0, length - (out - 1) * stride - (width - 1) * dilation - from_short - later) // 2
        for length, out, stride, width, dilation in zip(tensor.shape[2:], output, strides, size, dilations, strict=True)
    ]
    if not any(passed):
        return tensor
    sizes = [length - before for length, before in zip(tensor.shape[2:], passed, strict=True)]
    return sliced(node, tensor, [0, 0, *passed], [*tensor.shape[:2], *sizes], [1] * tensor.rank)


def widened(tensor: Tensor) -> Tensor:
    """With an axis of size 1 behind the channels, where there is only one spatial axis."""
    return tensor.with_axis(2) if tensor.rank == 3 else tensor


def channels_first(tensor: Tensor) -> Tensor:
    """A tensor whose channels come last, with the axes as operators have them."""
    return tensor.transposed([0, tensor.rank - 1, *range(1, tensor.rank - 1)])


def channels_last(tensor: Tensor) -> Tensor:
    """A tensor with the channels behind the spatial axes."""
    return tensor.transposed([0, *range(2, tensor.rank), 1])


def narrowed(tensor: Tensor, rank: int) -> Tensor:
    """Without that axis, where the tensor that it is made of has so many dimensions."""
    return tensor.without_axes([2]) if rank == 3 else tensor


def filtered(
    node: Node,
    operator: str,
    tensor: Tensor,  # batch, channels, spatial axes
    weights: Tensor,  # filters, channels of a group, spatial axes
    window: Window,
    element: int | None = None,  # of the result, where it follows from no input
    /,
    **more: Any,
) -> Tensor:
    seen, filters = widened(tensor), widened(weights)
    members = {"input_tensor": seen, "filter_tensor": filters, "group_count": node.integer("group", 1), **more}
    return narrowed(node.apply(operator, element, **window.widened().members, **members), tensor.rank)


@translates("Conv", by=["CONVOLUTION"], batch=batches.each_picture)
def convolution(node: Node) -> None:
    """One to three spatial axes."""
    tensor, weights = node.tensor(0), node.tensor(1)
    bias = channel_bias(node, 2, weights.shape[0])
    node.set(_filtered_in_halves(node, tensor, weights, bias) or convolved(node, tensor, weights, bias))


def _filtered_in_halves(node: Node, tensor: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor | None:
    """A bank of long filters for one channel, the sum of each cut in two; ``None``: the node is none.

    Logarithms of bands where nothing sounds show how the sum was rounded: two sums of half the length are twice as
    near. The second one is of the signal from the filter's middle on.
    """
    known, array, rank = node.known(1), weights.source.array, tensor.rank
    if known is None or array is None or array.size != known.size or not weights.is_packed:
        return None
    if tensor.element != TensorProto.FLOAT or tuple(node.list("kernel_shape") or known.shape[2:]) != known.shape[2:]:
        return None
    filters, *others, taps = known.shape
    is_padded = any(node.list("pads") or []) or node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
    if rank not in (3, 4) or weights.rank != rank or {*others, node.integer("group", 1)} != {1} or is_padded:
        return None
    if taps < _FEWEST_TAPS or taps % 2:
        return None
    if any(size != 1 for size in tensor.shape[1:-1]):  # last: where sizes are open, to ask makes a plan for the answer
        return None
    sizes = window_counts(node, tensor.shape[2:], weights.shape[2:])
    window = window_of(node, tensor.shape[2:], weights.shape[2:], output=sizes)
    half, middle = taps // 2, taps // 2 * window.dilations[-1]
    batch, length, frames = tensor.shape[0], tensor.shape[-1], sizes[-1]
    signal, steps = node.packed(tensor).viewed((batch, length)), (window.strides[-1], window.dilations[-1])
    later = sliced(node, signal, [0, middle], [batch, length - middle], [1, 1])
    total = None if bias is None else bias.viewed((1, filters, 1)).broadcast((batch, filters, frames))
    for number, heard in enumerate((signal, later)):
        part = node.assembly.part(weights, rank - 1, number * half, (number + 1) * half)
        seen = heard.viewed((batch, frames, half), (heard.shape[1], *steps), tensor.element)
        bank = part.viewed((filters, half)).broadcast((batch, filters, half))
        total = product(node, bank, seen, c=total, transposed=(False, True), beta=0.0 if total is None else 1.0)
    assert total is not None  # two parts were added
    return total.viewed((batch, filters, *sizes))


def convolved(node: Node, tensor: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """A convolution, with the activation behind it where there is one.

    Args:
        tensor: batch, channels, spatial axes.
        weights: filters, channels of a group, spatial axes.
        bias: a number for each filter.
    """
    if tensor.rank not in (3, 4, 5) or weights.rank != tensor.rank:
        raise NotOnDevice(f"one to three spatial axes; got {tensor.rank - 2}")
    groups = node.integer("group", 1)
    if groups < 1 or weights.shape[1] * groups != tensor.shape[1] or weights.shape[0] % groups:
        raise NotOnDevice(f"{groups} groups of {list(weights.shape)} do not fit the input {list(tensor.shape)}")
    if tuple(node.list("kernel_shape") or weights.shape[2:]) != weights.shape[2:]:
        raise NotOnDevice(f"kernel_shape {node.list('kernel_shape')} for weights of {list(weights.shape)}")
    sizes = window_counts(node, tensor.shape[2:], weights.shape[2:])
    tensor = cropped(node, tensor, weights.shape[2:], sizes, from_short=2)
    window = window_of(node, tensor.shape[2:], weights.shape[2:], output=sizes)
    return _convolved(node, tensor, weights, bias, window, (0,) * len(sizes), direction=_FORWARD)


@translates("ConvTranspose", by=["CONVOLUTION"], batch=batches.each_picture)
def transposed_convolution(node: Node) -> None:
    """Backwards, as ONNX Runtime cuts what there is of it."""
    transposed(node, node.list("pads"), bias=2)


def transposed(node: Node, given: Sequence[int] | None, bias: int) -> None:
    """A convolution backwards; the padding is what the output's shape leaves of it.

    Args:
        node: its attributes count, and its first two inputs.
        given: the padding; ``None``: none.
    """
    tensor, weights = node.tensor(0), node.tensor(1)
    if tensor.rank not in (3, 4, 5) or weights.rank != tensor.rank:
        raise NotOnDevice(f"one to three spatial axes; got {tensor.rank - 2}")
    groups = node.integer("group", 1)
    if groups < 1 or weights.shape[0] != tensor.shape[1] or weights.shape[0] % groups:
        raise NotOnDevice(f"{groups} groups of {list(weights.shape)} do not fit the input {list(tensor.shape)}")
    rank = tensor.rank - 2
    strides = tuple(node.list("strides") or [1] * rank)
    dilations = tuple(node.list("dilations") or [1] * rank)
    added = list(node.list("output_padding") or [0] * rank)
    pads = tuple(given or [0] * 2 * rank)
    wanted = (node.list("output_shape") or [])[-rank:]
    if (
        not len(strides) == len(dilations) == len(added) == rank
        or len(pads) != 2 * rank
        or len(wanted) not in (0, rank)
    ):
        raise NotOnDevice(f"strides, dilations, output_padding, output_shape and pads do not fit {rank} spatial axes")
    if min((*strides, *dilations, *wanted)) < 1 or min((*pads, *added)) < 0:
        raise NotOnDevice("strides, dilations and output_shape must be positive, pads and output_padding not negative")
    automatic = node.text("auto_pad", "NOTSET")
    if automatic == "VALID":
        pads = (0,) * 2 * rank
    elif automatic in ("SAME_UPPER", "SAME_LOWER") and not wanted:
        wanted = [size * stride for size, stride in zip(tensor.shape[2:], strides, strict=True)]
    start, end, sizes = list(pads[:rank]), list(pads[rank:]), []
    for axis in range(rank):
        full = (tensor.shape[axis + 2] - 1) * strides[axis] + (weights.shape[axis + 2] - 1) * dilations[axis] + 1
        if wanted:
            surplus = full + added[axis] - wanted[axis]
            if surplus < 0 and node.list("output_shape"):
                added[axis] -= surplus
            less, more = max(surplus, 0) // 2, max(surplus, 0) - max(surplus, 0) // 2
            start[axis], end[axis] = (less, more) if automatic == "SAME_UPPER" else (more, less)
        sizes.append(full + added[axis] - start[axis] - end[axis])
    if any(size < 1 for size in sizes):
        raise NotOnDevice(f"nothing is left between the pads: {sizes}")
    window = Window(weights.shape[2:], strides, dilations, tuple(start), tuple(end))
    addend = channel_bias(node, bias, weights.shape[1] * groups)
    node.set(_convolved(node, tensor, weights, addend, window, added, direction=_BACKWARD))


def channel_bias(node: Node, index: int, channels: int) -> Tensor | None:
    """An input that is a number for each filter; ``None`` for an absent one."""
    if not node.has(index):
        return None
    bias = node.tensor(index)
    if bias.shape != (channels,):
        raise NotOnDevice(f"a bias of {list(bias.shape)} does not fit {channels} channels")
    return bias


def _convolved(
    node: Node,
    tensor: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    window: Window,
    added: Sequence[int],
    *,
    direction: int,
) -> Tensor:
    rank = max(tensor.rank, 4)
    return filtered(
        node,
        "CONVOLUTION",
        tensor,
        weights,
        window,
        bias_tensor=None if bias is None else per_channel(bias, rank),
        mode=_CROSS_CORRELATION,
        direction=direction,
        output_padding=[0] * (rank - tensor.rank) + list(added),
        fused_activation=node.activation(),
    )


def convolved_channels(node: Node, lines: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """Each channel [batch, channels, places] by its own taps [channels, 1, taps], where all of them lie inside."""
    return filtered(
        node,
        "CONVOLUTION",
        lines,
        weights,
        Window((weights.shape[2],), (1,), (1,), (0,), (0,)),
        bias_tensor=None if bias is None else per_channel(bias, 4),
        mode=_CROSS_CORRELATION,
        direction=_FORWARD,
        output_padding=[0, 0],
        fused_activation=None,
        group_count=lines.shape[1],
    )


@translates("ConvInteger", by=["CONVOLUTION_INTEGER"], empty=emptiness.zeros)
def integer_convolution(node: Node) -> None:
    """8-bit integers; sums in 32 bits."""
    tensor, weights = node.tensor(0), node.tensor(1)
    zeros = {
        f"{role}_zero_point_tensor": per_channel(node.tensor(index), max(tensor.rank, 4)) if node.has(index) else None
        for role, index in (("input", 2), ("filter", 3))
    }
    sizes = window_counts(node, tensor.shape[2:], weights.shape[2:])
    window = window_of(node, tensor.shape[2:], weights.shape[2:], output=sizes)
    node.set(filtered(node, "CONVOLUTION_INTEGER", tensor, weights, window, **zeros))


def per_channel(tensor: Tensor, rank: int) -> Tensor:
    """A scalar or one number for each channel, with as many dimensions as the tensor that it belongs to."""
    return tensor.viewed((1, math.prod(tensor.shape), *[1] * (rank - 2)))
