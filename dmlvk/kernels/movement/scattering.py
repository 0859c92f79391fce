"""Lowers SCATTER and SCATTER_ND: of several updates of one place the last one wins, on every device.

One step where a work group can make a whole line (:mod:`dmlvk.kernels.movement.index_lines`). Otherwise three: the
numbers of the last updates are cleared; each update, numbered in row-major order, raises the number of its place to its
own (an atomic maximum, whose result does not depend on the order in which updates come); each element of the output is
taken from the update that its place has, or from the input where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.movement import index_lines
from dmlvk.kernels.movement.indexed_access import UNITS, Axis, IndexedAccess, kernel_of, variant_of
from dmlvk.kernels.program import Program, ProgramBuilder, Region, of_kernel
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.indexed import Scatter, ScatterNd
from dmlvk.operators.pooling import MaxUnpooling
from dmlvk.tensors import TensorDesc, packed_strides

_CLEAR = "clear.128bits"
_MARK = "scatter_mark"
_TAKE = "scatter_take"
_WORD = 32


def variants() -> Iterable[ShaderVariant]:
    yield from index_lines.variants()
    yield ShaderVariant(_CLEAR, "patterns/clearing.comp", ())
    yield variant_of(_MARK, _WORD)
    yield from (variant_of(_TAKE, unit) for unit in UNITS)


@lowering(Scatter)
def scatter(desc: Scatter, target: Target) -> Program:
    if (kernel := index_lines.scatter_kernel(desc, target)) is not None:
        return of_kernel(desc, kernel)
    source, indices, updates, output = desc.input_tensor, desc.indices_tensor, desc.updates_tensor, desc.output_tensor
    positions = list(packed_strides(output.sizes))
    take = [
        Axis(size, dense, position, sparse)
        for size, dense, position, sparse in zip(
            output.sizes, output.element_strides, positions, source.element_strides, strict=True
        )
    ]
    choices = ((output.sizes[desc.axis], positions[desc.axis]),)
    positions[desc.axis] = 0
    mark = [
        Axis(size, 0, step, position)
        for size, step, position in zip(indices.sizes, indices.element_strides, positions, strict=True)
    ]
    numbered = list(zip(updates.sizes, updates.element_strides, strict=True))
    return _program(desc, target, IndexedAccess(tuple(mark), choices), take, numbered, math.prod(output.sizes))


@lowering(ScatterNd)
def scatter_nd(desc: ScatterNd, target: Target) -> Program:
    dropped = desc.input_tensor.dimension_count - desc.input_dimension_count
    sizes = desc.output_tensor.sizes[dropped:]
    dense = desc.output_tensor.element_strides[dropped:]
    sparse = desc.input_tensor.element_strides[dropped:]
    first = desc.indices_tensor.dimension_count - desc.indices_dimension_count
    *index_sizes, count = desc.indices_tensor.sizes[first:]
    *steps, step = desc.indices_tensor.element_strides[first:]
    positions = (*packed_strides(sizes[:count]), *[0] * (len(sizes) - count)) if count else (0,) * len(sizes)
    moved = _strides_of((*index_sizes, *sizes[count:]), desc.updates_tensor)
    within = (*[0] * count, *moved[len(index_sizes) :])
    take = [Axis(*axis) for axis in zip(sizes, dense, positions, sparse, within, strict=True)]
    mark = IndexedAccess(
        tuple(Axis(size, 0, stride, 0) for size, stride in zip(index_sizes, steps, strict=True)),
        tuple(zip(sizes[:count], positions[:count], strict=True)),
        step,
    )
    numbered = list(zip(index_sizes, moved[: len(index_sizes)], strict=True))
    return _program(desc, target, mark, take, numbered, math.prod(sizes[:count]))


@lowering(MaxUnpooling)
def max_unpooling(desc: MaxUnpooling, target: Target) -> Program:
    """MAX_UNPOOLING is updates of a single 0, which lies everywhere, by indices through the whole output."""
    source, indices, output = desc.input_tensor, desc.indices_tensor, desc.output_tensor
    elements = math.prod(output.sizes)
    positions = packed_strides(output.sizes)
    mark = tuple(Axis(size, 0, step, 0) for size, step in zip(indices.sizes, indices.element_strides, strict=True))
    take = [
        Axis(size, dense, position, 0)
        for size, dense, position in zip(output.sizes, output.element_strides, positions, strict=True)
    ]
    numbered = list(zip(source.sizes, source.element_strides, strict=True))
    builder = ProgramBuilder(desc, target)
    zero = cleared(builder, desc.operator_name, 16, "zero")
    operands = zero, builder.reads["input_tensor"]
    scattered(builder, desc, IndexedAccess(mark, ((elements, 1),)), take, numbered, elements, operands)
    return builder.program()


def _strides_of(natural: Sequence[int], tensor: TensorDesc) -> tuple[int, ...]:
    """A tensor's strides along axes that differ from its own by some of size 1 only."""
    strides = (stride for size, stride in zip(tensor.sizes, tensor.element_strides, strict=True) if size > 1)
    return tuple(next(strides) if size > 1 else 0 for size in natural)


def _program(
    desc: Scatter | ScatterNd,
    target: Target,
    # the access order through the updates' indices, in row-major order, to the places that they mean
    mark: IndexedAccess,
    # the axes of the output: ``index`` is a place's number, ``sparse`` lies in the input, ``position`` in an update
    take: Sequence[Axis],
    # sizes and strides of the updates, outermost first, by which they are numbered
    numbered: Sequence[tuple[int, int]],
    positions: int,  # how many places there are
) -> Program:
    builder = ProgramBuilder(desc, target)
    operands = builder.reads["input_tensor"], builder.reads["updates_tensor"]
    scattered(builder, desc, mark, take, numbered, positions, operands)
    return builder.program()


def cleared(builder: ProgramBuilder, name: str, size_in_bytes: int, label: str) -> Region:
    """Scratch memory of so many bytes, set to zero by a step of its own."""
    region = builder.scratch(-(-size_in_bytes // 16) * 16)
    fours = region.size_in_bytes // 16
    groups = launch_size(name, fours)
    clear = PlainKernel(_CLEAR, groups, parameters=(fours,))
    builder.launch(clear, [], [region], label=label)
    return region


def scattered(
    builder: ProgramBuilder,
    desc: Scatter | ScatterNd | MaxUnpooling,
    mark: IndexedAccess,  # as for its program, and so are ``take``, ``numbered`` and ``places``
    take: Sequence[Axis],  # the axes of the output
    numbered: Sequence[tuple[int, int]],  # sizes and strides of the updates
    positions: int,  # how many places there are
    operands: tuple[Region, Region],  # what stays where nothing is put, and the updates
) -> None:
    numbers = cleared(builder, desc.operator_name, positions * 4, "no updates yet")
    marking = kernel_of(_MARK, mark.folded(keep_order=True), _WORD, desc.indices_tensor.data_type)
    builder.launch(marking, [builder.reads["indices_tensor"]], [numbers], label="last updates")
    inwards = tuple((size, stride) for size, stride in reversed(numbered) if size > 1)
    unit, access = (
        IndexedAccess(tuple(take), inwards).folded().in_units(desc.output_type.size_in_bits, moves_position=True)
    )
    taking = kernel_of(_TAKE, access, unit, DataType.UINT32)
    reads = [operands[0], numbers, operands[1]]
    builder.launch(taking, reads, [builder.writes["output_tensor"]], label="elements")
