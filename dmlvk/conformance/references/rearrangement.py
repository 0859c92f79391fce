"""What TILE, PADDING and blocks between depth and space give, by NumPy's own functions and indices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.registry import reference
from dmlvk.operators.rearrangement import DepthSpaceOrder, PaddingMode

Array = npt.NDArray[Any]

_NUMPY_MODES = {
    PaddingMode.EDGE: "edge",
    PaddingMode.REFLECTION: "reflect",
    PaddingMode.SYMMETRIC: "symmetric",
    PaddingMode.WRAP: "wrap",
}


@reference("TILE")
def tile(desc: dml.Tile, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """NumPy's tile."""
    return {"OutputTensor": np.tile(inputs["InputTensor"], desc.repeats)}


@reference("PADDING1", "PADDING")
def padding(desc: dml.Padding | dml.Padding1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """NumPy's pad, of the elements' numbers."""
    source = inputs["InputTensor"]
    widths = list(zip(desc.start_padding, desc.end_padding, strict=True))
    numbers = np.arange(source.size).reshape(source.shape)
    if desc.padding_mode is not PaddingMode.CONSTANT:
        mode: Any = _NUMPY_MODES[desc.padding_mode]
        return {"OutputTensor": source.ravel()[np.pad(numbers, widths, mode)]}
    value = desc.padding_value
    if source.dtype.kind in "iu":
        limits = np.iinfo(source.dtype)
        value = min(max(int(value), limits.min), limits.max)
    values = np.append(source.ravel(), np.array([value], source.dtype))
    return {"OutputTensor": values[np.pad(numbers, widths, "constant", constant_values=source.size)]}


def _deep_channel(
    desc: dml.DepthToSpace | dml.DepthToSpace1 | dml.SpaceToDepth | dml.SpaceToDepth1,
    c: int,
    i: int,
    j: int,
    channels: int,
) -> int:
    block = desc.block_size
    if getattr(desc, "order", DepthSpaceOrder.DEPTH_COLUMN_ROW) is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        return int((i * block + j) * channels + c)
    return int((c * block + i) * block + j)


@reference("DEPTH_TO_SPACE1", "DEPTH_TO_SPACE")
def depth_to_space(desc: dml.DepthToSpace | dml.DepthToSpace1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Channel by channel, for each place in a block."""
    source, block = inputs["InputTensor"], desc.block_size
    result = np.empty(desc.output_tensor.sizes, source.dtype)
    channels = result.shape[1]
    for c, i, j in itertools.product(range(channels), range(block), range(block)):
        result[:, c, i::block, j::block] = source[:, _deep_channel(desc, c, i, j, channels)]
    return {"OutputTensor": result}


@reference("SPACE_TO_DEPTH1", "SPACE_TO_DEPTH")
def space_to_depth(desc: dml.SpaceToDepth | dml.SpaceToDepth1, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Channel by channel, for each place in a block."""
    source, block = inputs["InputTensor"], desc.block_size
    result = np.empty(desc.output_tensor.sizes, source.dtype)
    channels = source.shape[1]
    for c, i, j in itertools.product(range(channels), range(block), range(block)):
        result[:, _deep_channel(desc, c, i, j, channels)] = source[:, c, i::block, j::block]
    return {"OutputTensor": result}
