"""Samples of TILE, PADDING and blocks between depth and space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.conformance.samples.movement import any_bits
from dmlvk.operators.rearrangement import DepthSpaceOrder, PaddingMode


@sampler("TILE")
def tile(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Along all axes, and along the last one."""
    data_type = types["input_tensor"]
    for name, sizes, repeats in (
        ("along all axes", (2, 1, 2, 5), (2, 3, 2, 3)),
        ("along the last axis", (2, 3, 1, 4), (1, 1, 1, 5)),
    ):
        yield sample(name, "TILE", types, {"input_tensor": any_bits(random, data_type, sizes)}, repeats=repeats)


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
        members = {"padding_mode": mode, "padding_value": -10.6, "start_padding": start, "end_padding": end}
        inputs = {"input_tensor": any_bits(random, data_type, sizes)}
        yield sample(mode.name.lower(), "PADDING", types, inputs, **members)


@sampler("PADDING1")
def padding1(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Each mode in fewer dimensions; a value that uses all bytes of its type."""
    data_type = types["input_tensor"]
    value: Any = 1.0 / 3.0 if data_type.is_float else np.iinfo(data_type.numpy_dtype).max // 3
    for mode, sizes, start, end in _PADDINGS:
        members = {"padding_mode": mode, "padding_value_data_type": data_type, "padding_value": value}
        members |= {"start_padding": start[2:], "end_padding": end[2:]}
        inputs = {"input_tensor": any_bits(random, data_type, sizes[2:])}
        yield sample(mode.name.lower(), "PADDING1", types, inputs, **members)


def _block_sampler(name: str) -> None:
    @sampler(name)
    def samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
        """Blocks of 2 and of 3, in both orders where there are two."""
        for order in DepthSpaceOrder if name.endswith("1") else (None,):
            more, words = ({}, "") if order is None else ({"order": order}, f", {order.name.lower()}")
            for block, (batch, channels, height, width) in ((2, (2, 8, 2, 3)), (3, (1, 9, 1, 4))):
                sizes = (batch, channels, height, width)
                if name.startswith("SPACE"):
                    sizes = (batch, channels // block**2, height * block, width * block)
                inputs = {"input_tensor": any_bits(random, types["input_tensor"], sizes)}
                yield sample(f"blocks of {block}{words}", name, types, inputs, block_size=block, **more)


for _name in ("DEPTH_TO_SPACE", "DEPTH_TO_SPACE1", "SPACE_TO_DEPTH", "SPACE_TO_DEPTH1"):
    _block_sampler(_name)
