"""Pools."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from onnx import TensorProto

from dmlvk.onnx.assembly import New
from dmlvk.onnx.operators.convolution import Window, widened, window_of
from dmlvk.onnx.translation import FLOATS, Node, translates
from dmlvk.onnx.values import NotOnDevice, Tensor
from dmlvk.operators.members import Size2D


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


def _pooled(node: Node, operator: str, window: Window, **more: Any) -> Tensor:
    tensor, output = node.tensor(0), node.new()
    shape = output.shape if len(output.shape) > 3 else (*output.shape[:2], 1, output.shape[2])
    made = node.apply(
        operator,
        input_tensor=widened(tensor),
        output_tensor=New(output.element, shape),
        **window.members,
        window_size=list(window.size),
        **more,
    )
    return made.viewed(output.shape)


@translates("MaxPool", by=["MAX_POOLING2"])
def max_pool(node: Node) -> None:
    """With indices where they are asked for, in row-major order."""
    tensor, output = node.tensor(0), node.new()
    window = pool_window(node, tensor, output.shape)
    if not node.wants(1):
        node.set(_pooled(node, "MAX_POOLING2", window, output_indices_tensor=None, dilations=list(window.dilations)))
        return
    if node.integer("storage_order"):
        raise NotOnDevice("indices in column-major order")
    shape = output.shape if len(output.shape) > 3 else (*output.shape[:2], 1, output.shape[2])
    values, indices = node.apply_all(
        "MAX_POOLING2",
        input_tensor=widened(tensor),
        output_tensor=New(output.element, shape),
        output_indices_tensor=New(TensorProto.UINT64, shape),
        **window.members,
        window_size=list(window.size),
        dilations=list(window.dilations),
    )
    node.set(values.viewed(output.shape))
    node.set(indices.viewed(output.shape, element=TensorProto.INT64), 1)


@translates("AveragePool", by=["AVERAGE_POOLING1"])
def average_pool(node: Node) -> None:
    """Padding counts when count_include_pad says so; what ceil_mode adds behind it never does."""
    tensor, output = node.tensor(0), node.new()
    window = pool_window(node, tensor, output.shape)
    included = node.integer("count_include_pad")
    plain = window_of(node, tensor.shape[2:], tuple(node.list("kernel_shape") or ()), output=output.shape[2:]).widened()
    if included and plain.end != window.end:
        raise NotOnDevice("padding that counts, together with ceil_mode")
    node.set(
        _pooled(node, "AVERAGE_POOLING1", window, dilations=list(window.dilations), include_padding=bool(included))
    )


@translates("LpPool", by=["LP_POOLING1"])
def lp_pool(node: Node) -> None:
    """The p-norm of each window."""
    window = pool_window(node, node.tensor(0), node.new().shape)
    node.set(_pooled(node, "LP_POOLING1", window, dilations=list(window.dilations), p=node.integer("p", 2)))


def _whole(node: Node, operator: str, **more: Any) -> Tensor:
    """A pool over all spatial axes, seen as two."""
    tensor = node.tensor(0)
    if tensor.rank < 3:
        raise NotOnDevice(f"needs a spatial axis; got {tensor.rank} dimensions")
    first, last = math.prod(tensor.shape[2:-1]), tensor.shape[-1]
    seen = node.reshaped(tensor, (*tensor.shape[:2], first, last)) if tensor.rank != 4 else tensor
    made = node.apply(
        operator,
        input_tensor=seen,
        output_tensor=New(tensor.element, (*tensor.shape[:2], 1, 1)),
        dimension_count=2,
        strides=[1, 1],
        window_size=[first, last],
        start_padding=[0, 0],
        end_padding=[0, 0],
        dilations=[1, 1],
        **more,
    )
    return made.viewed((*tensor.shape[:2], *[1] * (tensor.rank - 2)))


@translates("GlobalAveragePool", by=["AVERAGE_POOLING1"])
def global_average_pool(node: Node) -> None:
    """Over all spatial axes."""
    node.set(_whole(node, "AVERAGE_POOLING1", include_padding=False))


@translates("GlobalMaxPool", by=["MAX_POOLING2"])
def global_max_pool(node: Node) -> None:
    """Over all spatial axes."""
    node.set(_whole(node, "MAX_POOLING2", output_indices_tensor=None))


@translates("GlobalLpPool", by=["LP_POOLING1"])
def global_lp_pool(node: Node) -> None:
    """Over all spatial axes."""
    node.set(_whole(node, "LP_POOLING1", p=node.integer("p", 2)))


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
