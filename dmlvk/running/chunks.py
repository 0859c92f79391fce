"""How work on large tensors is cut into chunks that a smaller operator or graph computes, without changing a bit.

That goes where every result comes from the elements in its own place, or in its own row: all tensors are cut along
their outermost axes. A cut goes through one axis; of the axes before it a chunk has one index each. What lies in memory
one chunk behind the other is cut; what has no stride along such an axis, as a row that is added to all rows, is the
same for all of its chunks.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from dmlvk.graphs.compiled import CompiledGraph, GraphOrigin
from dmlvk.graphs.description import OperatorGraphNode
from dmlvk.graphs.network import NetworkNode, NetworkValue
from dmlvk.objects.compilation import CompiledOperator, CompiledSingleOperator, Operator, is_owned
from dmlvk.operators import OperatorDesc
from dmlvk.operators.declaration import with_tensors
from dmlvk.tensors import TensorDesc

CHUNK_BYTES = 8 * 2**20
"""Of the largest tensor in a chunk: what the caches of a processor hold while it goes to a device and back."""

LEAST_BYTES = 2 * CHUNK_BYTES
"""Of the largest tensor of what is cut."""

_LARGEST_SHARED_PART = 8  # What goes to every chunk whole takes this part of a chunk at most

_ELEMENT_BY_ELEMENT = ("elementwise", "conversion")
"""Patterns of operators whose results come from the elements in their own places."""


class Chunk(NamedTuple):
    """A part of all tensors.

    Attributes:
        indices: along the axes before the one that is cut.
        first: the first element along that one.
        end: the one behind the last.
    """

    indices: tuple[int, ...]
    first: int
    end: int


@dataclasses.dataclass(frozen=True)
class Tiling:
    """How the tensors of an operator or a graph are cut."""

    leading: tuple[int, ...]  # sizes of the axes before the one that is cut
    length: int  # of the axis that is cut
    step: int  # elements along it in a chunk; the last one may have fewer
    # for each input and output by name, which of its array's axes these are, the one that is cut last; ``None`` where
    # it has none
    axes: dict[str, tuple[int | None, ...]]
    repeated: dict[str, tuple[int, ...]]  # axes along which an input's elements must be the same, by its name

    def chunks(self) -> Iterator[Chunk]:
        for indices in itertools.product(*map(range, self.leading)):
            for first in range(0, self.length, self.step):
                yield Chunk(indices, first, min(first + self.step, self.length))

    def part(self, name: str, array: npt.NDArray[Any], chunk: Chunk) -> npt.NDArray[Any]:
        taken = [slice(None)] * array.ndim
        spans = [*((index, index + 1) for index in chunk.indices), (chunk.first, chunk.end)]
        for axis, stretch in zip(self.axes[name], spans, strict=True):
            if axis is not None:
                taken[axis] = slice(*stretch)
        return array[tuple(taken)]

    def takes(self, arrays: dict[str, npt.NDArray[Any]]) -> bool:
        """Whether inputs that must be the same in several chunks are, by their strides: others are checked whole."""
        return all(arrays[name].strides[axis] == 0 for name, axes in self.repeated.items() for axis in axes)


@dataclasses.dataclass(frozen=True)
class _Point:
    """An input or an output as callers see it."""

    name: str
    value: NetworkValue
    tensor: TensorDesc


@dataclasses.dataclass(frozen=True)
class _ChunkedWork:
    descs: tuple[OperatorDesc, ...]
    inputs: tuple[_Point, ...]
    outputs: tuple[_Point, ...]
    views: dict[NetworkValue, list[TensorDesc]]  # the tensors as which operators read or write each value


def tiling_of(compiled: CompiledOperator) -> Tiling | None:
    """How an operator or a graph is cut; ``None`` where it is small, or cannot be cut."""
    points = [point.tensor for point in compiled.outputs if point.tensor is not None]
    tensors = [tensor for tensor in (*compiled.input_tensors, *points) if tensor is not None]
    if max((tensor.size_in_bytes for tensor in tensors), default=0) < LEAST_BYTES:
        return None
    if any(is_owned(tensor) or tensor.data_type.size_in_bits < 8 for tensor in tensors):
        return None
    work = _work_of(compiled)
    return None if work is None else _tiling(work)


def _work_of(compiled: CompiledOperator) -> _ChunkedWork | None:
    if isinstance(compiled, CompiledGraph):
        network = compiled.network
        nodes: Sequence[NetworkNode] = network.nodes
        written = [value for value, _ in network.outputs]
    elif isinstance(compiled, CompiledSingleOperator):
        sources = tuple(NetworkValue("input", number) for number in range(len(compiled.desc.inputs)))
        written = [NetworkValue("node", 0, number) for number in range(len(compiled.desc.outputs))]
        nodes = [NetworkNode(0, compiled.name, compiled.desc, sources, tuple(written))]
    else:
        return None
    views: dict[NetworkValue, list[TensorDesc]] = {}
    for node in nodes:
        for _, tensor, value in (*node.reads(), *node.writes()):
            views.setdefault(value, []).append(tensor)
    inputs = [
        _Point(point.name, NetworkValue("input", number), tensor)
        for number, (point, tensor) in enumerate(zip(compiled.inputs, compiled.input_tensors, strict=True))
        if tensor is not None
    ]
    outputs = [
        _Point(point.name, value, point.tensor)
        for point, value in zip(compiled.outputs, written, strict=True)
        if point.tensor is not None
    ]
    return _ChunkedWork(tuple(node.desc for node in nodes), tuple(inputs), tuple(outputs), views)


def _tiling(work: _ChunkedWork) -> Tiling | None:
    tensors = [tensor for views in work.views.values() for tensor in views]
    sizes = tuple(tensors[0].sizes)
    if any(tuple(tensor.sizes) != sizes or tensor.data_type.size_in_bits < 8 for tensor in tensors):
        return None
    widest = max(tensor.data_type.size_in_bits for tensor in tensors) // 8
    axes = _axes_to_tile(work, sizes, CHUNK_BYTES // widest)
    if axes is None:
        return None
    leading, length = tuple(sizes[axis] for axis in axes[:-1]), sizes[axes[-1]]
    most = CHUNK_BYTES // (widest * math.prod(sizes[axes[-1] + 1 :]))
    step = -(-length // -(-length // most))  # all chunks about as long
    if step == length and not leading:
        return None
    found: dict[str, tuple[int | None, ...]] = {}
    repeated: dict[str, tuple[int, ...]] = {}
    for value, views in work.views.items():
        if not _lie_as_tiled(value, views, axes):
            return None
    for point in (*work.inputs, *work.outputs):
        views = work.views.get(point.value, [])
        strides = tuple(views[0].element_strides[axis] for axis in axes) if views else (0,) * len(axes)
        own = _own_axes(point.tensor, tuple(sizes[axis] for axis in axes), strides)
        if own is None or any(
            _chunk(point.tensor, own, step).size_in_bytes != _chunk(view, axes, step).size_in_bytes for view in views
        ):
            return None
        found[point.name] = own
        zeros = tuple(axis for axis, stride in zip(own, strides, strict=True) if axis is not None and stride == 0)
        if zeros:
            repeated[point.name] = zeros
    return Tiling(leading, length, step, found, repeated)


def _axes_to_tile(work: _ChunkedWork, sizes: tuple[int, ...], most_elements: int) -> tuple[int, ...] | None:
    """The outermost axes of several elements, as many as are needed for chunks of so many elements."""
    end = len(sizes)  # behind the axes that may be cut
    for desc in work.descs:
        if desc.declaration.pattern == "rows":
            end = min(end, *desc.row_axes)
        elif desc.declaration.pattern not in _ELEMENT_BY_ELEMENT:
            return None
    axes: list[int] = []
    for axis in range(end):
        if sizes[axis] > 1:
            axes.append(axis)
            if math.prod(sizes[axis + 1 :]) <= most_elements:
                return tuple(axes)
    return None


def _lie_as_tiled(value: NetworkValue, views: Sequence[TensorDesc], axes: Sequence[int]) -> bool:
    """Whether all who read and write a value find its chunks one behind the other, or the same one everywhere."""
    strides = {tuple(view.element_strides[axis] for axis in axes) for view in views}
    widths = {view.data_type.size_in_bits for view in views}
    if len(strides) != 1 or len(widths) != 1 or not all(_is_nested(view, axes) for view in views):
        return False
    if any(strides.pop()):
        return value.kind != "constant"
    return value.kind != "node" and max(view.size_in_bytes for view in views) <= CHUNK_BYTES // _LARGEST_SHARED_PART


def _is_nested(tensor: TensorDesc, axes: Sequence[int]) -> bool:
    """Whether what lies behind each of these axes lies between two neighbours along it."""
    inside = [axis for axis in range(len(tensor.sizes)) if axis not in axes]
    span = 1 + sum((tensor.sizes[axis] - 1) * tensor.element_strides[axis] for axis in inside)
    for axis in reversed(axes):
        stride = tensor.element_strides[axis]
        if stride:
            if stride < span:
                return False
            span += (tensor.sizes[axis] - 1) * stride
    return True


def _own_axes(tensor: TensorDesc, sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """Which axes of a tensor are the ones that are cut, seen by operators with these sizes and strides.

    Those without a stride the tensor may have or not. ``None``: it has others.
    """
    own = [axis for axis, size in enumerate(tensor.sizes) if size > 1]
    facts = [(tensor.sizes[axis], tensor.element_strides[axis]) for axis in own]
    wanted = list(zip(sizes, strides, strict=True))
    if facts[: len(wanted)] == wanted:
        return tuple(own[: len(wanted)]) if _is_nested(tensor, own[: len(wanted)]) else None
    with_stride = [each for each in wanted if each[1]]
    if facts[: len(with_stride)] != with_stride or not _is_nested(tensor, own[: len(with_stride)]):
        return None
    behind = iter(own)
    return tuple(next(behind) if stride else None for stride in strides)


def _chunk(tensor: TensorDesc, axes: Sequence[int | None], length: int) -> TensorDesc:
    """A tensor as a chunk has it.

    Args:
        axes: those along which a chunk has one element, and last the one along which it has several.
    """
    sizes = list(tensor.sizes)
    for axis in axes[:-1]:
        if axis is not None:
            sizes[axis] = 1
    if axes[-1] is not None:
        sizes[axes[-1]] = length
    strides = None if tensor.strides is None else tuple(tensor.strides)
    return TensorDesc(tensor.data_type, sizes, strides)


def compiled_chunk(compiled: CompiledOperator, tiling: Tiling, length: int) -> CompiledOperator:
    """The same operator or graph for chunks of so many elements along the axis that is cut.

    Raises:
        DmlError: when the device cannot have it.
    """
    work = _work_of(compiled)
    assert work is not None  # else there were no cut
    sizes = next(iter(work.views.values()))[0].sizes
    behind = [axis for axis, size in enumerate(sizes) if size > 1][: len(tiling.leading) + 1]

    def smaller(desc: OperatorDesc) -> OperatorDesc:
        return with_tensors(desc, lambda tensor: _chunk(tensor, behind, length))

    device = compiled.device
    if isinstance(compiled, CompiledSingleOperator):
        return device.compile_operator(device.create_operator(smaller(compiled.desc)), compiled.flags)
    origin = compiled.origin
    assert isinstance(origin, GraphOrigin)
    nodes = [
        dataclasses.replace(node, operator=Operator(None, smaller(node.operator.desc)))
        if isinstance(node, OperatorGraphNode)
        else node
        for node in origin.desc.nodes
    ]

    def seen(names: Sequence[str], tensors: Sequence[TensorDesc | None]) -> tuple[TensorDesc | None, ...]:
        return tuple(
            None if tensor is None else _chunk(tensor, tiling.axes[name], length)
            for name, tensor in zip(names, tensors, strict=True)
        )

    return dataclasses.replace(
        origin,
        desc=dataclasses.replace(origin.desc, nodes=nodes),
        input_tensors=seen(origin.input_names, origin.input_tensors),
        output_tensors=seen(origin.output_names, origin.output_tensors),
    ).made(device)
