"""Resampling by weighted elements along one axis after the other: what RESAMPLE2 does not do.

Places and weights follow from the shapes, so the host makes them in FLOAT64; the device gathers, multiplies and adds in
FLOAT32. Cubic weights are Keys' (R. Keys, «Cubic convolution interpolation for digital image processing», 1981).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes.operators.reduction import reduced
from dmlvk.onnx.nodes.translation import Node
from dmlvk.onnx.nodes.values import Array, NotOnDevice, Tensor
from dmlvk.operators.members import ReduceFunction

_MOST_TAPS = 2**24  # Elements that count along an axis, for all places together

_MOST_GATHERED = 2**24  # Elements that are gathered at once, where a single tap does not take more


@dataclasses.dataclass(frozen=True)
class FilterTaps:
    """How far a place looks, and how it weighs what it sees."""

    mode: str  # ``"nearest"``, ``"linear"`` or ``"cubic"``
    cubic: float = -0.75  # Keys' parameter
    antialias: bool = False  # whether shrinking widens it
    exclude_outside: bool = False  # whether elements beyond the edges count nothing, instead of as those at the edges


@dataclasses.dataclass(frozen=True)
class Taps:
    """What an axis becomes: for each place of the output elements of the input and their weights."""

    indices: Array  # places of the output by elements
    weights: Array  # likewise


def taps_of(kernel: FilterTaps, positions: Array, length: int, scale: float) -> Taps:
    """The taps of an axis.

    Args:
        positions: of the output's elements among the input's, in FLOAT64; rounded already for ``"nearest"``.
        scale: by what it is stretched.

    Raises:
        NotOnDevice: when more elements count for a place than any picture has.
    """
    if kernel.mode == "nearest":
        return Taps(np.clip(positions, 0, length - 1).astype(np.int64)[:, None], np.ones((len(positions), 1)))
    reach = 1 if kernel.mode == "linear" else 2
    shrink = min(scale, 1.0) if kernel.antialias else 1.0
    if 2 * reach * len(positions) > _MOST_TAPS * shrink:
        raise NotOnDevice(f"{len(positions)} elements of a size times {scale}: too many count for each of them")
    first = math.floor(-reach / shrink) + 1
    base = np.ceil(positions) - 1  # so that the place lies behind it, or on the next one
    steps = np.arange(first, 2 - first)
    distances = np.abs((steps[None, :] - (positions - base)[:, None]) * shrink)
    weights = np.clip(1 - distances, 0, 1) if kernel.mode == "linear" else _keys(distances, kernel.cubic)
    indices = base[:, None] + steps[None, :]
    if kernel.exclude_outside:
        weights = np.where((indices >= 0) & (indices < length), weights, 0.0)
    if kernel.exclude_outside or kernel.antialias:
        sums = weights.sum(1, keepdims=True)
        weights = weights / np.where(sums == 0, 1, sums)
    return Taps(np.clip(indices, 0, length - 1).astype(np.int64), weights)


def _keys(distances: Array, a: float) -> Array:
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = a * (((distances - 5) * distances + 8) * distances - 4)
    return np.where(distances <= 1, near, np.where(distances < 2, far, 0.0))


def resampled(node: Node, tensor: Tensor, axes: Sequence[tuple[int, Taps]]) -> Tensor:
    """A FLOAT32 tensor whose axes are resampled, those that shrink most first."""
    for axis, taps in sorted(axes, key=lambda item: len(item[1].indices) / tensor.shape[item[0]]):
        tensor = _along(node, tensor, axis, taps)
    return tensor


def _along(node: Node, tensor: Tensor, axis: int, taps: Taps) -> Tensor:
    """Groups of taps are gathered into an axis of their own, weighed, and summed."""
    out, count = taps.indices.shape
    others = math.prod(tensor.shape) // tensor.shape[axis]
    group = max(_MOST_GATHERED // max(others * out, 1), 1)
    total: Tensor | None = None
    for start in range(0, count, group):
        indices, weights = taps.indices[:, start : start + group], taps.weights[:, start : start + group]
        found = _gathered(node, tensor, axis, indices)
        if count > 1 or not np.all(weights == 1):
            found = _weighed(node, found, axis, weights)
        else:
            found = found.without_axes([axis + 1])
        total = found if total is None else total + found
    assert total is not None  # a place has at least one tap
    return total


def _gathered(node: Node, tensor: Tensor, axis: int, indices: Array) -> Tensor:
    """The elements with an axis for the taps behind the one that they come from."""
    constant = node.assembly.constant(np.ascontiguousarray(indices.reshape(-1)), TensorProto.INT64)
    flat = node.apply(
        "GATHER",
        input_tensor=tensor,
        indices_tensor=constant.viewed((1,) * (tensor.rank - 1) + (indices.size,)),
        axis=axis,
        index_dimensions=1,
    )
    return flat.viewed((*tensor.shape[:axis], *indices.shape, *tensor.shape[axis + 1 :]))


def _weighed(node: Node, found: Tensor, axis: int, weights: Array) -> Tensor:
    """The sums along the axis of the taps."""
    shape = tuple(size if position in (axis, axis + 1) else 1 for position, size in enumerate(found.shape))
    numbers = np.ascontiguousarray(weights.astype(np.float32).reshape(shape))
    products = found * node.assembly.constant(numbers, TensorProto.FLOAT)
    return reduced(node, ReduceFunction.SUM, products, [axis + 1]).without_axes([axis + 1])
