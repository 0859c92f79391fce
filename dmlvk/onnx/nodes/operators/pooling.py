"""Pools."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.convolution import Window, cropped, narrowed, widened, window_of
from dmlvk.onnx.nodes.operators.elementwise import with_equal_zeros
from dmlvk.onnx.nodes.operators.movement import padded
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.onnx.nodes.window_counts import window_counts
from dmlvk.operators.members import Size2D


def pooled_sizes(node: Node, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """How many windows there are along each spatial axis."""
    return window_counts(node, sizes, node.list("kernel_shape") or [], is_pool=True)


def pool_window(node: Node, tensor: Tensor, output: tuple[int, ...]) -> Window:
    """The window, with as much padding behind as the output's shape needs (ceil_mode)."""
    if tensor.rank not in (3, 4, 5):
        raise NotOnDevice(f"one to three spatial axes; got {tensor.rank - 2}")
    size = tuple(node.list("kernel_shape") or ())
    window = window_of(node, tensor.shape[2:], size, output=output[2:])
    end = [
        max(behind, (out - 1) * stride + (width - 1) * dilation + 1 - length - before)
        for behind, out, stride, width, dilation, length, before in zip(
            window.end,
            output[2:],
            window.strides,
            window.size,
            window.dilations,
            tensor.shape[2:],
            window.start,
            strict=True,
        )
    ]
    return dataclasses.replace(window, end=tuple(end)).widened()


def pooled(node: Node, operator: str, tensor: Tensor, window: Window, **more: Any) -> Tensor:
    """A pool of the input by DirectML's operator."""
    made = node.apply(operator, input_tensor=widened(tensor), **window.members, window_size=list(window.size), **more)
    return narrowed(made, tensor.rank)


def _output(node: Node, tensor: Tensor) -> tuple[int, ...]:
    if tensor.rank not in (3, 4, 5):
        raise NotOnDevice(f"one to three spatial axes; got {tensor.rank - 2}")
    return (*tensor.shape[:2], *pooled_sizes(node, tensor.shape[2:]))


@translates("MaxPool", by=["MAX_POOLING2"], batch=batches.each_picture)
def max_pool(node: Node) -> None:
    """With indices where they are asked for, in either order."""
    tensor = node.tensor(0)
    output = _output(node, tensor)
    window = pool_window(node, tensor, output)
    if not node.wants(1):
        node.set(pooled(node, "MAX_POOLING2", tensor, window, output_indices_tensor=None))
        return
    shape = output if len(output) > 3 else (*output[:2], 1, output[2])
    values, indices = node.apply_all(
        "MAX_POOLING2",
        input_tensor=widened(with_equal_zeros(node, tensor)),
        output_tensor=New(tensor.element, shape),
        output_indices_tensor=New(TensorProto.UINT64, shape),
        **window.members,
        window_size=list(window.size),
    )
    node.set(values.viewed(output))
    found = indices.viewed(output, element=TensorProto.INT64)
    node.set(_column_major(node, found, tensor.shape[2:]) if node.integer("storage_order") else found, 1)


def _column_major(node: Node, indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Row-major indices of all elements as those whose first spatial axis goes fastest; channels stay outside."""
    count = math.prod(sizes)
    positions = np.arange(count, dtype=np.int64).reshape(sizes[::-1]).transpose().reshape(-1)
    inside = indices % count
    row = inside.viewed((1, math.prod(inside.shape)))
    moved = node.apply(
        "GATHER",
        input_tensor=node.assembly.constant(np.ascontiguousarray(positions), TensorProto.INT64).viewed((1, count)),
        indices_tensor=row,
        axis=1,
        index_dimensions=1,
    )
    outside = indices - inside
    return outside + moved.viewed(indices.shape)


@translates("AveragePool", by=["AVERAGE_POOLING1"], batch=batches.each_picture)
def average_pool(node: Node) -> None:
    """Padding counts when count_include_pad says so; what ceil_mode adds behind it never does."""
    tensor = node.tensor(0)
    output = _output(node, tensor)
    if node.version >= 19:  # ONNX Runtime refuses it before
        tensor = cropped(node, tensor, node.list("kernel_shape") or [], output[2:], from_short=1)
    window = pool_window(node, tensor, output)
    included = bool(node.integer("count_include_pad"))
    given = window_of(node, tensor.shape[2:], tuple(node.list("kernel_shape") or ()), output=output[2:])
    if included and given.widened().end != window.end:  # padding that counts becomes zeros of the input
        nothing = [0, 0]
        tensor = padded(node, tensor, [*nothing, *given.start], [*nothing, *given.end])
        more = [behind - counted for behind, counted in zip(window.end, given.widened().end, strict=True)]
        window = dataclasses.replace(window, start=(0,) * len(window.size), end=tuple(more))
        included = False
    node.set(pooled(node, "AVERAGE_POOLING1", tensor, window, include_padding=included))


@translates("LpPool", by=["LP_POOLING1"], batch=batches.each_picture)
def lp_pool(node: Node) -> None:
    """The p-norm of each window."""
    tensor = node.tensor(0)
    output = _output(node, tensor)
    tensor = cropped(node, tensor, node.list("kernel_shape") or [], output[2:], from_short=1)
    window = pool_window(node, tensor, output)
    node.set(pooled(node, "LP_POOLING1", tensor, window, p=node.integer("p", 2)))


def whole(node: Node, tensor: Tensor, operator: str, **more: Any) -> Tensor:
    """A pool over all spatial axes, seen as two."""
    if tensor.rank < 3:
        raise NotOnDevice(f"needs a spatial axis; got {tensor.rank} dimensions")
    first, last = math.prod(tensor.shape[2:-1]), tensor.shape[-1]
    seen = node.reshaped(tensor, (*tensor.shape[:2], first, last)) if tensor.rank != 4 else tensor
    made = node.apply(
        operator,
        input_tensor=seen,
        strides=[1, 1],
        window_size=[first, last],
        start_padding=[0, 0],
        end_padding=[0, 0],
        dilations=[1, 1],
        **more,
    )
    return made.viewed((*tensor.shape[:2], *[1] * (tensor.rank - 2)))


@translates("GlobalAveragePool", by=["AVERAGE_POOLING1"], batch=batches.each_picture)
def global_average_pool(node: Node) -> None:
    """Over all spatial axes."""
    node.set(whole(node, node.tensor(0), "AVERAGE_POOLING1", include_padding=False))


@translates("GlobalMaxPool", by=["MAX_POOLING2"], batch=batches.each_picture)
def global_max_pool(node: Node) -> None:
    """Over all spatial axes."""
    node.set(whole(node, node.tensor(0), "MAX_POOLING2", output_indices_tensor=None))


@translates("GlobalLpPool", by=["LP_POOLING1"], batch=batches.each_picture)
def global_lp_pool(node: Node) -> None:
    """Over all spatial axes."""
    node.set(whole(node, node.tensor(0), "LP_POOLING1", p=node.integer("p", 2)))


@translates("MaxUnpool", by=["MAX_UNPOOLING"])
def max_unpool(node: Node) -> None:
    """Each element goes back where a pool without padding found it; an output shape of its own is the host's."""
    tensor, indices = node.tensor(0), node.tensor(1)
    if node.has(2):
        raise NotOnDevice("an output shape that is given")
    size, rank = node.list("kernel_shape") or [], tensor.rank - 2
    strides, pads = node.list("strides") or [1] * rank, node.list("pads") or [0] * 2 * rank
    if rank != 2 or not len(size) == len(strides) == rank or len(pads) != 2 * rank:
        raise NotOnDevice("two spatial axes, with as many numbers in every attribute")
    shape = [
        (length - 1) * stride + width - before - behind
        for length, stride, width, before, behind in zip(
            tensor.shape[2:], strides, size, pads[:rank], pads[rank:], strict=True
        )
    ]
    node.set(
        node.apply(
            "MAX_UNPOOLING",
            input_tensor=tensor,
            indices_tensor=indices.viewed(indices.shape, indices.strides, TensorProto.UINT64),
            output_tensor=New(tensor.element, (*tensor.shape[:2], *shape)),
        )
    )


@translates("MaxRoiPool", by=["ROI_POOLING"])
def max_roi_pool(node: Node) -> None:
    """The largest element of each bin of each region; bins are cut without rounding."""
    tensor, regions, pooled = node.tensor(0), node.tensor(1), node.list("pooled_shape") or []
    node.check_element(0, *FLOATS)
    if tensor.rank != 4 or regions.rank != 2 or len(pooled) != 2:
        raise NotOnDevice("two spatial axes, rows of regions, and two numbers in pooled_shape")
    node.set(
        node.apply(
            "ROI_POOLING",
            input_tensor=tensor,
            roi_tensor=regions.with_axis(0).with_axis(0),
            output_tensor=New(tensor.element, (regions.shape[0], tensor.shape[1], *pooled)),
            spatial_scale=node.real("spatial_scale", 1.0),
            pooled_size=Size2D(height=pooled[0], width=pooled[1]),
        )
    )
