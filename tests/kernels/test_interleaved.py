"""On GPUs: elements of two or four lines that alternate in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.movement import copies
from dmlvk.kernels.target import GPU
from dmlvk.operators.rearrangement import DepthSpaceOrder, DepthToSpace1, SpaceToDepth1
from tests.targets import all_compute_as_gpus, every_device

_TYPES = (dml.UINT8, dml.FLOAT16, dml.FLOAT32)


@pytest.fixture(scope="module")
def devices() -> Iterator[list[dml.Device]]:
    """Every device."""
    with every_device() as devices:
        yield devices


def _blocks(deep: Any, block: int, order: DepthSpaceOrder) -> Any:
    """DEPTH_TO_SPACE by NumPy."""
    n, c, h, w = deep.shape
    channels = c // block**2
    if order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        pixels = deep.reshape(n, block, block, channels, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        pixels = deep.reshape(n, channels, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return np.ascontiguousarray(pixels.reshape(n, channels, h * block, w * block))


@pytest.mark.parametrize("order", list(DepthSpaceOrder), ids=lambda order: order.name.lower())
@pytest.mark.parametrize("data_type", _TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("sizes", "block", "is_interleaved"),
    [
        ((2, 8, 5, 32), 2, True),
        ((1, 32, 3, 16), 4, True),
        ((3, 4, 1, 48), 2, True),
        ((1, 4, 2, 16), 2, True),
        ((1, 18, 3, 16), 3, False),
        ((1, 8, 3, 18), 2, False),
    ],
)
def test_blocks(
    devices: list[dml.Device],
    sizes: tuple[int, ...],
    block: int,
    is_interleaved: bool,
    data_type: dml.DataType,
    order: DepthSpaceOrder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_compute_as_gpus(monkeypatch)
    monkeypatch.setattr(copies, "SMALL_IN_BYTES", 0)
    deep = np.random.default_rng(1).integers(0, 128, sizes).astype(data_type.numpy_dtype)
    flat = _blocks(deep, block, order)
    tensors = dml.TensorDesc(data_type, deep.shape), dml.TensorDesc(data_type, flat.shape)
    to_space = DepthToSpace1(input_tensor=tensors[0], output_tensor=tensors[1], block_size=block, order=order)
    to_depth = SpaceToDepth1(input_tensor=tensors[1], output_tensor=tensors[0], block_size=block, order=order)
    for desc, given, expected, word in ((to_space, deep, flat, "together"), (to_depth, flat, deep, "apart")):
        (step,) = lower(desc, GPU).steps
        name = f"interleaved.bits{data_type.size_in_bits}.{word}{block}"
        assert (step.kernel.variant == name) is is_interleaved
        for device in devices:
            (result,) = device.run(desc, {"InputTensor": given}).values()
            assert np.array_equal(result, expected)
