"""Samples of TILE, PADDING and blocks between depth and space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.conformance.samples.movement import any_bits
from dmlvk.operators.rearrangement import (
    DepthSpaceOrder,
    DepthToSpace,
    DepthToSpace1,
    Padding,
    Padding1,
    PaddingMode,
    SpaceToDepth,
    SpaceToDepth1,
    Tile,
)
from dmlvk.tensors import TensorDesc


@sampler("TILE")
def tile(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Along all axes, and along the last one."""
    data_type = types["input_tensor"]
    for name, sizes, repeats in (
        ("along all axes", (2, 1, 2, 5), (2, 3, 2, 3)),
        ("along the last axis", (2, 3, 1, 4), (1, 1, 1, 5)),
    ):
        whole = tuple(size * repeat for size, repeat in zip(sizes, repeats, strict=True))
        desc = Tile(
            input_tensor=TensorDesc(data_type, sizes),
            output_tensor=TensorDesc(data_type, whole),
            repeats_count=4,
            repeats=repeats,
        )
        yield Sample(name, desc, {"InputTensor": any_bits(random, data_type, sizes)})


_PADDINGS = (
    (PaddingMode.CONSTANT, (1, 2, 3, 5), (0, 1, 0, 2), (1, 0, 2, 3)),
    (PaddingMode.EDGE, (1, 2, 3, 4), (0, 2, 0, 3), (1, 1, 2, 0)),
    (PaddingMode.REFLECTION, (1, 2, 3, 4), (2, 3, 0, 2), (0, 1, 5, 9)),
    (PaddingMode.SYMMETRIC, (1, 2, 3, 4), (2, 0, 0, 7), (0, 1, 4, 1)),
    (PaddingMode.WRAP, (1, 2, 3, 4), (0, 0, 1, 2), (1, 3, 0, 9)),
)


@sampler("PADDING")
def padding(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Each mode, with paddings longer than the tensor."""
    data_type = types["input_tensor"]
    for mode, sizes, start, end in _PADDINGS:
        whole = tuple(map(sum, zip(start, sizes, end, strict=True)))
        desc = Padding(
            input_tensor=TensorDesc(data_type, sizes),
            output_tensor=TensorDesc(data_type, whole),
            padding_mode=mode,
            padding_value=-10.6,
            dimension_count=4,
            start_padding=start,
            end_padding=end,
        )
        yield Sample(mode.name.lower(), desc, {"InputTensor": any_bits(random, data_type, sizes)})


@sampler("PADDING1")
def padding1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Each mode in fewer dimensions; a value that uses all bytes of its type."""
    data_type = types["input_tensor"]
    value: Any = 1.0 / 3.0 if data_type.is_float else np.iinfo(data_type.numpy_dtype).max // 3
    for mode, sizes, start, end in _PADDINGS:
        whole = tuple(map(sum, zip(start[2:], sizes[2:], end[2:], strict=True)))
        desc = Padding1(
            input_tensor=TensorDesc(data_type, sizes[2:]),
            output_tensor=TensorDesc(data_type, whole),
            padding_mode=mode,
            padding_value_data_type=data_type,
            padding_value=value,
            dimension_count=2,
            start_padding=start[2:],
            end_padding=end[2:],
        )
        yield Sample(mode.name.lower(), desc, {"InputTensor": any_bits(random, data_type, sizes[2:])})


def _blocks(kind: Any, to_space: bool, types: Types, random: np.random.Generator) -> Iterator[Sample]:
    data_type = types["input_tensor"]
    orders = list(DepthSpaceOrder) if kind.operator_name.endswith("1") else [None]
    for order in orders:
        for block, deep in ((2, (2, 8, 2, 3)), (3, (1, 9, 1, 4))):
            flat = (deep[0], deep[1] // block**2, deep[2] * block, deep[3] * block)
            source, result = (deep, flat) if to_space else (flat, deep)
            desc = kind(
                input_tensor=TensorDesc(data_type, source),
                output_tensor=TensorDesc(data_type, result),
                block_size=block,
                **({} if order is None else {"order": order}),
            )
            name = f"blocks of {block}" + ("" if order is None else f", {order.name.lower()}")
            yield Sample(name, desc, {"InputTensor": any_bits(random, data_type, source)})


@sampler("DEPTH_TO_SPACE")
def depth_to_space(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Blocks of 2 and of 3."""
    return _blocks(DepthToSpace, True, types, random)


@sampler("DEPTH_TO_SPACE1")
def depth_to_space1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same in both orders."""
    return _blocks(DepthToSpace1, True, types, random)


@sampler("SPACE_TO_DEPTH")
def space_to_depth(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Blocks of 2 and of 3."""
    return _blocks(SpaceToDepth, False, types, random)


@sampler("SPACE_TO_DEPTH1")
def space_to_depth1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """The same in both orders."""
    return _blocks(SpaceToDepth1, False, types, random)
