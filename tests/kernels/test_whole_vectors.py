"""On GPUs: what only moves elements moves 16 bytes at once, where elements of one vector lie together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.kernels.movement import copies
from dmlvk.kernels.target import CPU, GPU, Target
from dmlvk.operators.movement import Join, Split
from dmlvk.operators.rearrangement import DepthSpaceOrder, DepthToSpace1, Padding, PaddingMode, SpaceToDepth1
from tests.targets import all_compute_as_gpus, every_device, variants

_MANY = dataclasses.replace(GPU, buffers=8)
_OF_TYPES = pytest.mark.parametrize("data_type", (dml.UINT8, dml.FLOAT16, dml.FLOAT32), ids=lambda t: t.name)


@pytest.fixture(scope="module")
def opened() -> Iterator[list[dml.Device]]:
    """Every device."""
    with every_device() as devices:
        yield devices


@pytest.fixture
def devices(opened: list[dml.Device], monkeypatch: pytest.MonkeyPatch) -> list[dml.Device]:
    """Every device, as a GPU."""
    all_compute_as_gpus(monkeypatch)
    return opened


def _drawn(data_type: dml.DataType, *sizes: Sequence[int]) -> list[Any]:
    random = np.random.default_rng(1)
    return [random.integers(0, 128, each).astype(data_type.numpy_dtype) for each in sizes]


def _check(devices: list[dml.Device], desc: Any, given: Mapping[str, Any], expected: Sequence[Any]) -> None:
    for device in devices:
        for result, known in zip(device.run(desc, given).values(), expected, strict=True):
            assert np.array_equal(result, known)


@pytest.mark.parametrize("data_type", (dml.UINT8, dml.FLOAT16), ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((67, 71), (1, 0)),
        ((2, 5, 33, 31), (0, 2, 3, 1)),  # few lines, and then few along them
        ((2, 33, 31, 5), (0, 3, 1, 2)),
        ((3, 65, 2, 67), (2, 3, 0, 1)),
        ((299, 19), (1, 0)),
        ((17, 300), (1, 0)),
    ],
)
def test_narrow_elements_are_transposed_in_tiles_wherever_lines_begin(
    devices: list[dml.Device],
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    order: tuple[int, ...],
    data_type: dml.DataType,
) -> None:
    """Words that two lines or two tiles share keep the elements of both."""
    monkeypatch.setattr(copies, "SMALL_IN_BYTES", 1)
    (given,) = _drawn(data_type, sizes)
    expected = given.transpose(order)
    steps = dml.TensorDesc(data_type, sizes).element_strides
    desc = dml.ElementWiseIdentity(
        input_tensor=dml.TensorDesc(data_type, expected.shape, tuple(steps[axis] for axis in order)),
        output_tensor=dml.TensorDesc(data_type, expected.shape),
    )
    assert variants(desc, GPU) == [f"turned.bits{data_type.size_in_bits}"]
    back = dataclasses.replace(desc, input_tensor=desc.output_tensor, output_tensor=desc.input_tensor)
    for each in (desc, back):  # arrays are as tensors are seen, whatever their strides
        _check(devices, each, {"InputTensor": expected}, [expected])


@_OF_TYPES
@pytest.mark.parametrize(
    ("sizes", "starts", "ends"),
    [
        ((2, 3, 30, 29), (0, 0, 1, 1), (0, 0, 1, 2)),
        ((1, 2, 5, 15), (1, 0, 2, 0), (0, 2, 0, 2)),
        ((3, 51), (1, 2), (0, 3)),
        ((1001,), (3,), (2,)),
        ((6, 33), (0, 31), (0, 0)),
        ((3, 3, 3, 3, 21), (1, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
        ((1, 3), (0, 13), (0, 1)),
    ],
)
def test_padding(
    devices: list[dml.Device],
    sizes: tuple[int, ...],
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    data_type: dml.DataType,
) -> None:
    """Sixteen bytes of the output lie in one row or in two, or behind the last one."""
    (given,) = _drawn(data_type, sizes)
    expected = np.pad(given, list(zip(starts, ends, strict=True)), constant_values=7)
    desc = Padding(
        input_tensor=dml.TensorDesc(data_type, sizes),
        output_tensor=dml.TensorDesc(data_type, expected.shape),
        padding_mode=PaddingMode.CONSTANT,
        padding_value=7.0,
        dimension_count=len(sizes),
        start_padding=starts,
        end_padding=ends,
    )
    assert variants(desc, GPU) == [f"padded.{data_type.size_in_bits}bits.vectors"]
    _check(devices, desc, {"InputTensor": given}, [expected])


def _both(data_type: dml.DataType, sizes: Sequence[tuple[int, ...]], axis: int) -> tuple[Any, Any]:
    """JOIN of tensors, and SPLIT into them."""
    total = sum(size[axis] for size in sizes)
    whole = dml.TensorDesc(data_type, (*sizes[0][:axis], total, *sizes[0][axis + 1 :]))
    tensors, count = [dml.TensorDesc(data_type, size) for size in sizes], len(sizes)
    join = Join(input_count=count, input_tensors=tensors, output_tensor=whole, axis=axis)
    return join, Split(input_tensor=whole, output_count=count, output_tensors=tensors, axis=axis)


def _check_join(devices: list[dml.Device], join: Any, given: Sequence[Any]) -> None:
    named = {f"input_tensors[{number}]": part for number, part in enumerate(given)}
    _check(devices, join, named, [np.concatenate(given, join.axis)])


@pytest.mark.parametrize(
    ("data_type", "sizes", "axis", "joined"),
    [
        (dml.FLOAT32, [(16, 1024)] * 4, 0, ["parts.join4"]),
        (dml.FLOAT32, [(64, 256)] * 4, 1, ["parts.join4"]),
        (dml.FLOAT32, [(128, 4), (128, 1024), (128, 512)], 1, ["parts.join3"]),
        (dml.FLOAT16, [(7, 64, 64)] * 7, 1, ["parts.join4", "parts.join3"]),
        (dml.UINT8, [(3, 4, 8192)] * 5, 1, ["parts.join4", "element_wise_identity.uint64.rows"]),
        (dml.INT64, [(7, 3, 50), (7, 500, 50)], 1, ["parts.join2"]),
        # Not made of whole vectors, or not behind one another.
        (dml.FLOAT32, [(7, 301, 50), (7, 501, 50)], 1, ["copy.bits64.large"] * 2),
        (dml.FLOAT32, [(3, 501, 50), (3, 500, 50)], 1, ["copy.bits64.large"] * 2),
    ],
)
def test_up_to_four_parts_have_one_launch(
    devices: list[dml.Device], data_type: dml.DataType, sizes: list[tuple[int, ...]], axis: int, joined: list[str]
) -> None:
    join, split = _both(data_type, sizes, axis)
    assert variants(join, _MANY) == joined
    assert variants(split, _MANY) == [name.replace("parts.join", "parts.split") for name in joined]
    given = _drawn(data_type, *sizes)
    _check_join(devices, join, given)
    _check(devices, split, {"InputTensor": np.concatenate(given, axis)}, given)


@pytest.mark.parametrize(
    ("size", "count", "target", "joined"),
    [
        ((64, 256), 8, GPU, ["parts.join3", "parts.join3", "parts.join2"]),
        ((64, 256), 8, dataclasses.replace(GPU, buffers=2), ["copy.bits128.small"] * 8),
        ((64, 256), 4, CPU, ["copy.bits128.small"] * 4),
        ((4, 256), 4, _MANY, ["copy.bits128.small"] * 4),
    ],
)
def test_few_buffers_processors_and_small_tensors_have_fewer_parts_in_a_launch(
    size: tuple[int, ...], count: int, target: Target, joined: list[str]
) -> None:
    assert variants(_both(dml.FLOAT32, [size] * count, 1)[0], target) == joined


def test_gaps_between_parts_stay_as_they_are(devices: list[dml.Device]) -> None:
    """Rows of the whole lie apart."""
    part = dml.TensorDesc(dml.FLOAT32, (64, 256))
    whole = dml.TensorDesc(dml.FLOAT32, (64, 512), (528, 1))
    join = Join(input_count=2, input_tensors=[part, part], output_tensor=whole, axis=1)
    assert variants(join, _MANY) == ["parts.join2"]
    _check_join(devices, join, list(np.arange(2 * 64 * 256, dtype=np.float32).reshape(2, 64, 256)))


@pytest.mark.parametrize("order", list(DepthSpaceOrder), ids=lambda order: order.name.lower())
@_OF_TYPES
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
def test_elements_of_two_or_four_lines_alternate_in_one(
    devices: list[dml.Device],
    sizes: tuple[int, ...],
    block: int,
    is_interleaved: bool,
    data_type: dml.DataType,
    order: DepthSpaceOrder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copies, "SMALL_IN_BYTES", 0)
    (deep,) = _drawn(data_type, sizes)
    n, c, h, w = sizes
    channels = c // block**2
    if order is DepthSpaceOrder.DEPTH_COLUMN_ROW:
        pixels = deep.reshape(n, block, block, channels, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        pixels = deep.reshape(n, channels, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    flat = np.ascontiguousarray(pixels.reshape(n, channels, h * block, w * block))
    tensors = dml.TensorDesc(data_type, deep.shape), dml.TensorDesc(data_type, flat.shape)
    to_space = DepthToSpace1(input_tensor=tensors[0], output_tensor=tensors[1], block_size=block, order=order)
    to_depth = SpaceToDepth1(input_tensor=tensors[1], output_tensor=tensors[0], block_size=block, order=order)
    for desc, given, expected, word in ((to_space, deep, flat, "together"), (to_depth, flat, deep, "apart")):
        name = f"interleaved.bits{data_type.size_in_bits}.{word}{block}"
        assert (variants(desc, GPU) == [name]) is is_interleaved
        _check(devices, desc, {"InputTensor": given}, [expected])
