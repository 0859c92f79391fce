"""The plan of a kernel along axes takes every element of every row once, in its order: checked without a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.kernels.kernel import ElementwiseKernel
from dmlvk.kernels.layout import FoldedLayout, fold_in_order
from dmlvk.kernels.target import CPU
from tests.targets import kernel_of

Offsets = npt.NDArray[np.int64]


def _desc(
    data_type: dml.DataType, sizes: Sequence[int], strides: Sequence[Sequence[int]], axes: Sequence[int]
) -> dml.OperatorDesc:
    source, target = (dml.TensorDesc(data_type, sizes, own) for own in strides)
    return dml.ActivationSoftmax1(input_tensor=source, output_tensor=target, axis_count=len(axes), axes=axes)


def _expected(sizes: Sequence[int], strides: Sequence[Sequence[int]], axes: Sequence[int]) -> set[tuple[object, ...]]:
    """For every row the places of its elements in the input and the output, in the order of their coordinates."""
    rows: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for coordinates in np.ndindex(*sizes):
        key = tuple(c for axis, c in enumerate(coordinates) if axis not in axes)
        offsets = [sum(c * s for c, s in zip(coordinates, own, strict=True)) for own in strides]
        rows.setdefault(key, []).append((offsets[0], offsets[1]))
    return {tuple(row) for row in rows.values()}


def _planned(desc: dml.OperatorDesc) -> list[tuple[object, ...]]:
    """The same, as the shader's invocations compute it from the specialization constants."""
    kernel = kernel_of(desc)
    has_rows, has_offsets, lanes, _, *geometry = kernel.specialization([0, 0])
    assert has_rows == (kernel.work_groups[1] > 1)
    assert not has_offsets
    sizes, output, source = (geometry[8 * i : 8 * i + 8] for i in range(3))
    row_axes, length, _, *has_blocks, invocations, staged = geometry[24:]
    assert staged == 0, "words need no staging"
    assert lanes in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert lanes * 16 >= min(length, 4096)
    assert lanes == 1 or lanes * 8 < min(length, 4096), "half the lanes would do"
    assert kernel.variant.split(".")[-1] == ("in_registers" if length <= 4096 else "long")
    assert invocations == kernel.work_group_size == max(lanes, 128)
    assert math.prod(kernel.work_groups) * (invocations // lanes) >= kernel.work_items
    _check_on_processors(kernel, kernel_of(desc, CPU), length)
    rows: list[tuple[object, ...]] = []
    for row in range(kernel.work_items):
        start, rest = [0, 0], row
        for axis in range(row_axes, 8):
            coordinate, rest = rest % sizes[axis], rest // sizes[axis]
            start = [start[0] + coordinate * source[axis], start[1] + coordinate * output[axis]]
        assert rest == 0
        elements = []
        for element in range(length):
            offsets, rest = list(start), element
            for axis in range(row_axes):
                coordinate = rest if axis + 1 == row_axes else rest % sizes[axis]
                rest //= sizes[axis]
                offsets = [offsets[0] + coordinate * source[axis], offsets[1] + coordinate * output[axis]]
            elements.append((offsets[0], offsets[1]))
        for operand, has in enumerate(has_blocks):
            for first in range(0, length - 3 if has else 0, 4):
                of_operand = [pair[operand] for pair in elements[first : first + 4]]
                assert of_operand[0] % 4 == 0
                assert of_operand == list(range(of_operand[0], of_operand[0] + 4))
        rows.append(tuple(elements))
    return rows


def _check_on_processors(kernel: ElementwiseKernel, alone: ElementwiseKernel, length: int) -> None:
    """The same geometry, with as many work groups as it takes when every invocation takes a row."""
    if length > 4096 or kernel.work_items < 16:
        assert alone == kernel
        return
    assert alone.variant == kernel.variant.removesuffix("in_registers") + "alone"
    assert (alone.geometry[:-2], alone.work_items) == (kernel.geometry[:-2], kernel.work_items)
    assert alone.work_group_size == alone.geometry[-2] == 256
    assert math.prod(alone.work_groups) == -(-kernel.work_items // 256)


def test_a_launch_takes_every_element_of_every_row_in_order() -> None:
    random = np.random.default_rng(8)
    for _ in range(400):
        sizes = random.choice([1, 1, 2, 3, 4, 5], random.integers(1, 9)).tolist()
        while math.prod(sizes) > 400:
            sizes[int(np.argmax(sizes))] -= 1
        order = random.permutation(len(sizes))
        strides = []
        for kept in (random.random() < 0.7, True):
            own, step = [0] * len(sizes), 1
            for axis in order if random.random() < 0.5 else reversed(range(len(sizes))):
                own[axis] = step if kept or random.random() < 0.7 else 0
                step = (step + int(random.integers(0, 2))) * sizes[axis]
            strides.append(own)
        axes = random.permutation(len(sizes))[: random.integers(1, len(sizes) + 1)].tolist()
        planned = _planned(_desc(dml.FLOAT32, sizes, strides, axes))
        assert len(planned) == math.prod(size for axis, size in enumerate(sizes) if axis not in axes)
        assert set(planned) == _expected(sizes, strides, axes), (sizes, strides, axes)


@pytest.mark.parametrize("length", [1, 4, 5, 16, 17, 128, 129, 1020, 1024, 1025, 4096, 4097])
def test_lengths_choose_lanes_and_variant(length: int) -> None:
    (row,) = _planned(_desc(dml.FLOAT32, (length,), [(1,), (1,)], (0,)))
    assert row == tuple((i, i) for i in range(length))


def _constants(
    data_type: dml.DataType, sizes: Sequence[int], strides: Sequence[Sequence[int]], axes: Sequence[int]
) -> tuple[bool, bool, bool]:
    """LANES_ARE_NEIGHBOURS, INPUT_HAS_BLOCKS and OUTPUT_HAS_BLOCKS."""
    constants = kernel_of(_desc(data_type, sizes, strides, axes)).specialization([0, 0])
    return bool(constants[30]), bool(constants[31]), bool(constants[32])


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16])
def test_blocks_are_moved_at_once_where_every_one_lies_at_a_multiple_of_four(data_type: dml.DataType) -> None:
    plain = (64, 8, 1)
    whole: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
        ((3, 5, 8), (40, 8, 1), (2,)),
        ((3, 5, 7), (44, 8, 1), (2,)),
        ((1, 1, 7), (7, 7, 1), (2,)),
    ]
    whole += [((3, 5, 8), (0, 8, 1), (2,)), ((3, 5, 8), (8, 24, 1), (2, 0))]
    for sizes, strides, axes in whole:
        assert _constants(data_type, sizes, [strides, plain], axes)[1:] == (True, True)
    for sizes, strides, axes in (
        ((3, 5, 7), (35, 7, 1), (2,)),
        ((3, 5, 8), (45, 9, 1), (2,)),
        ((3, 5, 8), (80, 16, 2), (2,)),
        ((3, 5, 8), (1, 3, 15), (2,)),
        ((3, 5, 6), (32, 6, 1), (2, 0)),
    ):
        assert not _constants(data_type, sizes, [strides, plain], axes)[1]
        if 0 not in strides:
            assert not _constants(data_type, sizes, [plain, strides], axes)[2]


def test_neighbouring_invocations_take_neighbouring_elements_of_the_input() -> None:
    assert _constants(dml.FLOAT32, (5, 7), [(7, 1), (7, 1)], (1,))[0]
    assert not _constants(dml.FLOAT32, (5, 7), [(7, 1), (7, 1)], (0,))[0]
    assert not _constants(dml.FLOAT32, (5, 7), [(1, 5), (7, 1)], (1,))[0]


def test_folding_in_order_keeps_the_order() -> None:
    assert fold_in_order((2, 3, 4), [(12, 4, 1), (12, 4, 1)]) == FoldedLayout((24,), ((1,), (1,)))
    assert fold_in_order((3, 4), [(1, 3), (1, 3)]) == FoldedLayout((4, 3), ((3, 1), (3, 1)))
    assert fold_in_order((1, 5, 1), [(9, 2, 9), (7, 1, 0)]) == FoldedLayout((5,), ((2,), (1,)))
    assert fold_in_order((1, 1), [(9, 2), (7, 1)]) == FoldedLayout((), ((), ()))
