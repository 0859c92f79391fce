"""Lowers operators whose elements are moved by indices: GATHER and its kin, ONE_HOT, REVERSE_SUBSEQUENCES, SCATTER."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.movement import index_lines, nonzero, scattering
from dmlvk.kernels.movement.indexed_access import UNITS, Axis, IndexedAccess, kernel_of, takes_many, variant_of
from dmlvk.kernels.program import Program, of_kernel
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.indexed import Gather, GatherElements, GatherNd, GatherNd1, OneHot, ReverseSubsequences
from dmlvk.tensors import TensorDesc


@shader_variants
def variants() -> Iterable[ShaderVariant]:
    for operation, units in (("gather", UNITS), ("reverse_subsequences", UNITS), ("one_hot", UNITS[1:])):
        yield from (variant_of(operation, unit) for unit in units)
    yield variant_of("gather", 32, has_many=True)
    yield from scattering.variants()
    yield from nonzero.variants()


@lowering(Gather)
def _gather(desc: Gather, target: Target) -> Program:
    source, indices, output = desc.input_tensor, desc.indices_tensor, desc.output_tensor
    before, after = range(desc.axis), range(desc.axis + 1, source.dimension_count)
    chosen = range(indices.dimension_count - desc.index_dimensions, indices.dimension_count)
    natural = [
        *((source.sizes[axis], source.element_strides[axis], 0) for axis in before),
        *((indices.sizes[axis], 0, indices.element_strides[axis]) for axis in chosen),
        *((source.sizes[axis], source.element_strides[axis], 0) for axis in after),
    ]
    choices = ((source.sizes[desc.axis], source.element_strides[desc.axis]),)
    return _gathered(desc, IndexedAccess(_aligned(natural, output), choices), target)


def _aligned(natural: Sequence[tuple[int, int, int]], output: TensorDesc) -> tuple[Axis, ...]:
    """The axes of an access order; leading ones of size 1 may differ in number from the output's.

    Args:
        natural: size, stride in the input and stride in the indices of each axis.
    """
    kept = [axis for axis in natural if axis[0] > 1]
    strides = [stride for size, stride in zip(output.sizes, output.element_strides, strict=True) if size > 1]
    return tuple(Axis(size, dense, index, sparse) for (size, sparse, index), dense in zip(kept, strides, strict=True))


def _gathered(desc: Gather | GatherElements | GatherNd | GatherNd1, access: IndexedAccess, target: Target) -> Program:
    unit, access = access.folded().in_units(desc.output_type.size_in_bits)
    has_many = takes_many(access, unit, target)
    return of_kernel(desc, kernel_of("gather", access, unit, desc.indices_tensor.data_type, has_many=has_many))


@lowering(GatherElements)
def _gather_elements(desc: GatherElements, target: Target) -> Program:
    if (kernel := index_lines.gather_kernel(desc, target)) is not None:
        (step,) = of_kernel(desc, kernel).steps
        return Program((dataclasses.replace(step, reads=(*step.reads, step.reads[1])),))
    source, indices, output = desc.input_tensor, desc.indices_tensor, desc.output_tensor
    strides = list(source.element_strides)
    choices = ((source.sizes[desc.axis], strides[desc.axis]),)
    strides[desc.axis] = 0
    axes = zip(output.sizes, output.element_strides, indices.element_strides, strides, strict=True)
    return _gathered(desc, IndexedAccess(tuple(Axis(*axis) for axis in axes), choices), target)


@lowering(GatherNd, GatherNd1)
def _gather_nd(desc: GatherNd | GatherNd1, target: Target) -> Program:
    batches = desc.batch_dimension_count if isinstance(desc, GatherNd1) else 0
    source = _last_axes(desc.input_tensor, desc.input_dimension_count)
    indices = _last_axes(desc.indices_tensor, desc.indices_dimension_count)
    count, step = indices.pop()
    natural = [
        *((size, stride, step) for (size, stride), (_, step) in zip(source[:batches], indices, strict=False)),
        *((size, 0, step) for size, step in indices[batches:]),
        *((size, stride, 0) for size, stride in source[batches + count :]),
    ]
    choices = tuple(source[batches : batches + count])
    return _gathered(desc, IndexedAccess(_aligned(natural, desc.output_tensor), choices, step), target)


def _last_axes(tensor: TensorDesc, count: int) -> list[tuple[int, int]]:
    return list(zip(tensor.sizes, tensor.element_strides, strict=True))[tensor.dimension_count - count :]


@lowering(OneHot)
def _one_hot(desc: OneHot, target: Target) -> Program:
    indices, values, output = desc.indices_tensor, desc.values_tensor, desc.output_tensor
    position = [int(axis == desc.axis) for axis in range(output.dimension_count)]
    strides = [0 if is_named else stride for is_named, stride in zip(position, indices.element_strides, strict=True)]
    axes = zip(output.sizes, output.element_strides, strides, [0] * len(strides), position, strict=True)
    distance = next(s for size, s in reversed(list(zip(values.sizes, values.element_strides, strict=True))) if size > 1)
    access = IndexedAccess(tuple(Axis(*axis) for axis in axes), ((output.sizes[desc.axis], distance),)).folded()
    # The kernel's operands are the values, then the indices.
    kernel = kernel_of("one_hot", access, desc.output_type.size_in_bits, indices.data_type)
    (step,) = of_kernel(desc, kernel).steps
    return Program((dataclasses.replace(step, reads=step.reads[::-1]),))


@lowering(ReverseSubsequences)
def _reverse_subsequences(desc: ReverseSubsequences, target: Target) -> Program:
    source, lengths, output = desc.input_tensor, desc.sequence_lengths_tensor, desc.output_tensor
    axes = []
    for axis, size in enumerate(output.sizes):
        dense, stride, step = (t.element_strides[axis] for t in (output, source, lengths))
        axes.append(Axis(size, dense, 0, 0, 1) if axis == desc.axis else Axis(size, dense, step, stride))
    access = IndexedAccess(tuple(axes), ((output.sizes[desc.axis], source.element_strides[desc.axis]),))
    unit, access = access.folded().in_units(desc.output_type.size_in_bits)
    return of_kernel(desc, kernel_of("reverse_subsequences", access, unit, lengths.data_type))
