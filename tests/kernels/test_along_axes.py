"""The plan of a kernel along axes: its lanes, and what it moves in blocks; checked without a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

import dmlvk as dml
from dmlvk.kernels.layout import FoldedLayout, fold_in_order
from dmlvk.kernels.target import CPU
from tests.targets import kernel_of


def _desc(
    data_type: dml.DataType, sizes: Sequence[int], strides: Sequence[Sequence[int]], axes: Sequence[int]
) -> dml.OperatorDesc:
    source, target = (dml.TensorDesc(data_type, sizes, own) for own in strides)
    return dml.ActivationSoftmax1(input_tensor=source, output_tensor=target, axis_count=len(axes), axes=axes)


@pytest.mark.parametrize("length", [1, 4, 5, 16, 17, 128, 129, 1020, 1024, 1025, 4096, 4097])
def test_a_row_has_as_many_lanes_as_it_takes(length: int) -> None:
    kernel = kernel_of(_desc(dml.FLOAT32, (30, length), [(length, 1)] * 2, (1,)))
    lanes, invocations = kernel.geometry[0], kernel.work_group_size
    assert lanes * 16 >= min(length, 4096)
    assert lanes == 1 or lanes * 8 < min(length, 4096), "half the lanes would do"
    assert kernel.variant.endswith(".in_registers" if length <= 4096 else ".long")
    assert invocations == max(lanes, 128)
    assert math.prod(kernel.work_groups) == -(-30 // (invocations // lanes))
    alone = kernel_of(_desc(dml.FLOAT32, (30, length), [(length, 1)] * 2, (1,)), CPU)
    if length > 4096:
        assert alone == kernel
        return
    assert (alone.variant, alone.work_group_size) == (kernel.variant.replace("in_registers", "alone"), 256)
    assert (alone.geometry[:-2], math.prod(alone.work_groups)) == (kernel.geometry[:-2], 1)


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
