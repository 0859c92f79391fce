"""Plans SCATTER and GATHER_ELEMENTS by lines in shared memory: shaders/patterns/movement/index_lines.glsl."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.kernel import WORK_GROUP_SIZE, PlainKernel, launch_size
from dmlvk.kernels.layout import fold
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.indexed import GatherElements, Scatter
from dmlvk.tensors import TensorDesc

_SCATTER = "scatter_lines"
_GATHER = "gather_lines"
_WORD = 32
_NEIGHBOURS = 4  # Elements that an invocation takes at once

_MOST_ITERATIONS = 8  # How often it does so at most: ``MAX_ITERATIONS`` in the shader

_MOST_INVOCATIONS = 1024  # Fewer are slower on long lines: docs/notes/speed.md, «Moving, reducing»

_FEWEST_ELEMENTS = 512
_FEWEST_LINES = 16  # Below these there is too little for a work group, or for a device, to do

_FEWEST_LINES_OF_ONE_STEP = 128  # The same where the other way takes one step, too

_MOST_ELEMENTS = 0xFFFC  # As many as numbers of 16 bits tell apart, of which the last one means none


def variants() -> Iterator[ShaderVariant]:
    yield from (ShaderVariant(name, f"indexed/{name}.comp", ()) for name in (_SCATTER, _GATHER))


def scatter_kernel(desc: Scatter, target: Target) -> PlainKernel | None:
    """The kernel that makes whole lines, or ``None`` where lines do not suit it.

    It reads the input, the indices and the updates.
    """
    tensors = (desc.input_tensor, desc.indices_tensor, desc.updates_tensor, desc.output_tensor)
    return _kernel(_SCATTER, desc, tensors, target, _FEWEST_LINES)


def gather_kernel(desc: GatherElements, target: Target) -> PlainKernel | None:
    """The kernel that gathers from whole lines, likewise; it reads the input, the indices, and whatever."""
    if 2 * desc.indices_tensor.sizes[desc.axis] < desc.input_tensor.sizes[desc.axis]:
        return None  # more would be read than is asked for
    tensors = (desc.input_tensor, desc.indices_tensor, desc.indices_tensor, desc.output_tensor)
    return _kernel(_GATHER, desc, tensors, target, _FEWEST_LINES_OF_ONE_STEP)


def _kernel(
    variant: str, desc: Scatter | GatherElements, tensors: Sequence[TensorDesc], target: Target, fewest_lines: int
) -> PlainKernel | None:
    source, indices = tensors[:2]
    length, count = source.sizes[desc.axis], indices.sizes[desc.axis]
    others = [axis for axis in range(source.dimension_count) if axis != desc.axis]
    sizes = [desc.output_tensor.sizes[axis] for axis in others]
    lines = fold(sizes, [[tensor.element_strides[axis] for axis in others] for tensor in tensors])
    steps = [stride for operand in lines.strides for stride in operand]
    if (
        target.is_cpu
        or desc.output_type.size_in_bits != _WORD
        or [indices.sizes[axis] for axis in others] != sizes
        or any(tensor.element_strides[desc.axis] != 1 for tensor in tensors)
        or len(lines.sizes) != 1
        or any(number % _NEIGHBOURS for number in (length, count, *steps))
        or math.prod(lines.sizes) < fewest_lines
        or not _FEWEST_ELEMENTS <= length <= min(_MOST_ELEMENTS, target.shared_memory // 4)
    ):
        return None
    invocations = WORK_GROUP_SIZE
    most = min(_MOST_INVOCATIONS, target.work_group_size)
    while invocations * 2 <= most and invocations * _NEIGHBOURS < max(length, count):
        invocations *= 2
    if max(length, count) > _MOST_ITERATIONS * _NEIGHBOURS * invocations:
        return None
    groups = launch_size(desc.operator_name, lines.sizes[0] * WORK_GROUP_SIZE)
    index_type = indices.data_type
    return PlainKernel(
        variant=variant,
        work_groups=groups,
        work_group_size=invocations,
        constants={
            "LENGTH": length,
            "INVOCATIONS": invocations,
            "INDICES_OF_LINE": count,
            "INDEX_IS_PAIR": int(index_type.size_in_bits == 2 * _WORD),
            "INDEX_IS_SIGNED": int(index_type in (DataType.INT32, DataType.INT64)),
        },
        parameters=(lines.sizes[0], *steps),
    )
