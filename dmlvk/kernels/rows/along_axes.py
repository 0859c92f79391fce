"""Lowers an operator whose results depend on whole rows, such as SOFTMAX, to one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmlvk.dynamic.sizes import is_dynamic, is_multiple, typical
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, ElementwiseKernel, launch_size
from dmlvk.kernels.layout import FoldedLayout, fold, fold_in_order, open_ended
from dmlvk.kernels.program import Program, of_kernel
from dmlvk.kernels.registry import pattern_lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import BLOCK, BLOCKS_IN_REGISTERS, AccessOrder, operand_types, shader_name, variant_name
from dmlvk.operators import OperatorDesc
from dmlvk.tensors import MAXIMUM_DIMENSION_COUNT, TensorDesc

FEWEST_LANES_OF_A_GROUP = 128
"""Work groups are small, for lanes of a group wait for each other; smaller ones would gain nothing more."""

_WORD = 32
"""Bits of which narrower elements share some with those of other rows: FLOAT32 gains nothing by shared memory."""

_MOST_STAGED = 2048
"""Elements of a work group's rows that go through shared memory: STAGED_SPACE in patterns/rows/along_axes.glsl."""

ROWS_FOR_PROCESSORS = 16
"""From so many rows on a processor's invocations take whole rows: with fewer it would have nothing for its vectors."""


@pattern_lowering("rows")
def lower_alone(desc: OperatorDesc, target: Target) -> Program:
    """The program of one kernel: see :func:`lower`."""
    return of_kernel(desc, lower(desc, target))


def lower(desc: OperatorDesc, target: Target) -> ElementwiseKernel:
    """The kernel that computes a checked description on a device."""
    tensors = {field.attribute: tensor for field, tensor in desc.inputs + desc.outputs if tensor is not None}
    types = operand_types(type(desc), {member: tensor.data_type for member, tensor in tensors.items()})
    row, rows = _split(list(tensors.values()), desc.row_axes)
    length, count = math.prod(row.sizes), math.prod(rows.sizes)
    fits_registers = length <= BLOCKS_IN_REGISTERS * BLOCK * WORK_GROUP_SIZE
    lanes = _lanes_of_a_row(length)
    geometry = (
        lanes,
        0,  # an element-wise kernel's, which knows packed rows
        *_axes(row, rows),
        len(row.sizes),
        length,
        int(_lanes_are_neighbours(row, rows)),
        *(int(_has_blocks(row, rows, operand)) for operand in (0, -1)),
    )

    access_order: AccessOrder = "in_registers" if fits_registers else "long"
    size = max(lanes, FEWEST_LANES_OF_A_GROUP)
    rows_of_a_group = size // lanes
    if target.is_cpu and fits_registers and typical(count) >= ROWS_FOR_PROCESSORS:
        access_order, size, rows_of_a_group = "alone", WORK_GROUP_SIZE, WORK_GROUP_SIZE
    staged = 0
    is_alone = target.is_cpu or access_order != "in_registers"
    if types[-1].size_in_bits < _WORD and not is_alone and _lie_behind_one_another(row, rows, geometry[-2:]):
        staged = rows_of_a_group * length
    return ElementwiseKernel(
        variant=variant_name(shader_name(type(desc)), types, access_order),
        geometry=(*geometry, size, staged if staged <= _MOST_STAGED else 0),
        work_groups=launch_size(desc.operator_name, -(-count // rows_of_a_group) * size, size),
        work_items=count,
        attributes=(),
        work_group_size=size,
    )


def _split(tensors: Sequence[TensorDesc], row_axes: Sequence[int]) -> tuple[FoldedLayout, FoldedLayout]:
    """The axes along which a row lies, in their own order, and those that lead from row to row, in memory's."""
    sizes = tensors[-1].sizes
    others = [axis for axis in range(len(sizes)) if axis not in row_axes]

    def chosen(axes: Sequence[int]) -> tuple[list[int], list[list[int]]]:
        return [sizes[axis] for axis in axes], [[t.element_strides[axis] for axis in axes] for t in tensors]

    return fold_in_order(*chosen(row_axes)), fold(*chosen(others))


def _lanes_of_a_row(length: int) -> int:
    """A power of two: no more than it takes when each adds up as many elements at once as it can."""
    blocks = -(-length // (BLOCK * BLOCKS_IN_REGISTERS))
    lanes = 1
    while lanes < blocks and lanes < WORK_GROUP_SIZE:
        lanes *= 2
    return lanes


def _has_blocks(row: FoldedLayout, rows: FoldedLayout, operand: int) -> bool:
    """Whether every block but a row's last one lies at a multiple of four elements in memory, side by side."""
    strides = row.strides[operand]
    within = len(row.sizes) == 1 or (len(row.sizes) > 1 and is_multiple(row.sizes[0], BLOCK))
    further = (*strides[1:], *rows.strides[operand])
    return within and strides[0] == 1 and all(is_multiple(stride, BLOCK) for stride in further)


def _lie_behind_one_another(row: FoldedLayout, rows: FoldedLayout, has_blocks: Sequence[int]) -> bool:
    """Whether rows fill memory one behind the other, but not in blocks: in the input and in the output."""
    if all(has_blocks) or len(row.sizes) != 1 or len(rows.sizes) > 1 or is_dynamic(row.sizes[0]):
        return False
    return all(
        along == (1,) and (not rows.sizes or from_row == (row.sizes[0],))
        for along, from_row in zip(row.strides, rows.strides or ((), ()), strict=True)
    )


def _lanes_are_neighbours(row: FoldedLayout, rows: FoldedLayout) -> bool:
    """Whether the elements of a row lie closer together than those of different rows, in the input."""
    return not rows.sizes or not row.sizes or row.strides[0][0] <= rows.strides[0][0]


def _axes(row: FoldedLayout, rows: FoldedLayout) -> tuple[int, ...]:
    """Sizes, then the strides of the output and of the input, for 8 axes, those of the row first."""
    missing = MAXIMUM_DIMENSION_COUNT - len(row.sizes) - len(rows.sizes)
    constants = [*row.sizes, *open_ended(rows.sizes), *[1] * missing]
    for operand in (-1, 0):
        constants += [*row.strides[operand], *rows.strides[operand], *[0] * missing]
    return tuple(constants)
