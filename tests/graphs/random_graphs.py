"""Graphs at random: all element-wise operators and data types, broadcasts, strides, shared values, several outputs."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance import patterns
from dmlvk.conformance.cases import attribute_sets
from dmlvk.graphs import (
    ConstantGraphNode,
    GraphDesc,
    InputGraphEdge,
    IntermediateGraphEdge,
    OperatorGraphNode,
    OutputGraphEdge,
)
from dmlvk.kernels.variants import supported_operands
from dmlvk.operators import REGULAR_OPERATORS, OperatorDesc
from dmlvk.tensors import packed_strides

Array = npt.NDArray[Any]
Sizes = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Source:
    """Something that a node can read: a graph input, a constant, or a node's output."""

    kind: str  # ``"input"``, ``"constant"`` or ``"node"``
    index: int  # which graph input, or which node
    tensor: dml.TensorDesc  # as what it was written or first read


@dataclasses.dataclass
class RandomGraph:
    descs: dict[int, OperatorDesc]  # the operators by the index of their nodes
    desc: GraphDesc  # the graph
    inputs: dict[str, Array]  # an array for each input, by its name


OPERATOR_NAMES = sorted(REGULAR_OPERATORS)  # What graphs are made of: every operator that there is

_SIZES = ((1,), (5,), (4, 6), (6, 4), (2, 3, 4), (24,), (1, 3, 1, 8), (2, 2, 2, 3), (33,), (3, 1, 5, 7), (2, 1, 64))


class Builder:
    def __init__(self, device: dml.Device, random: Random, operators: Sequence[str] | None = None) -> None:
        self.device = device
        self.random = random
        self.operators = list(operators or OPERATOR_NAMES)
        self.nodes: list[OperatorGraphNode | ConstantGraphNode] = []
        self.input_tensors: list[dml.TensorDesc] = []
        self.sources: list[Source] = []
        self.descs: dict[int, OperatorDesc] = {}
        self.input_edges: list[InputGraphEdge] = []
        self.between: list[IntermediateGraphEdge] = []
        self.read: set[int] = set()

    def graph(self, count: int) -> RandomGraph:
        attempts = 0
        while len(self.descs) < count and attempts < 50 * count:
            attempts += 1
            self._add_operator()
        outputs = [index for index in self.descs if index not in self.read]
        outputs += [index for index in self.descs if index in self.read and self.random.random() < 0.15]
        if self.random.random() < 0.1:
            outputs.append(outputs[0])  # one value as two outputs
        desc = GraphDesc(
            len(self.input_tensors),
            len(outputs),
            self.nodes,
            self.input_edges,
            [OutputGraphEdge(index, 0, number) for number, index in enumerate(outputs)],
            self.between,
        )
        inputs = {f"Input{number}": self._array(tensor) for number, tensor in enumerate(self.input_tensors)}
        return RandomGraph(self.descs, desc, inputs)

    def _add_operator(self) -> None:
        kind = REGULAR_OPERATORS[self.random.choice(self.operators)]
        data_types, _ = self.random.choice(_operands(kind.operator_name))
        tensors = [field for field in kind.fields if field.type == "tensor" and field.attribute in data_types]
        reads = [field for field in tensors if field.kind == "input"]
        first = self._source_of_width(data_types[reads[0].attribute])
        strides: Sizes | None
        if first is not None:
            sizes, strides = self._seen_again(first)
        else:
            sizes = self.random.choice(_SIZES)
            strides = self._input_strides(sizes)
        total = None if first is None else first.tensor.size_in_bytes
        views: dict[str, tuple[Source | None, dml.TensorDesc]] = {}
        for number, field in enumerate(reads):
            data_type = data_types[field.attribute]
            if number == 0:
                views[field.attribute] = first, dml.TensorDesc(data_type, sizes, strides, total)
            else:
                views[field.attribute] = self._second(data_type, sizes)
        members: dict[str, Any] = {attribute: tensor for attribute, (_, tensor) in views.items()}
        (output,) = (field for field in tensors if field.kind == "output")
        members[output.attribute] = dml.TensorDesc(data_types[output.attribute], sizes, self._output_strides(sizes))
        members |= self._attributes(kind, data_types[reads[0].attribute], len(sizes))
        try:
            operator = self.device.create_operator(kind(**members))
        except dml.DmlError:
            return  # a combination that the operator does not take
        self._connect(operator, views, members[output.attribute])

    def _attributes(self, kind: type[OperatorDesc], data_type: dml.DataType, rank: int) -> dict[str, Any]:
        axes = next((field for field in kind.fields if field.type == "uint32_array"), None)
        if axes is None or axes.counted_by is None:
            return self.random.choice(attribute_sets(kind, data_type))
        chosen = self.random.sample(range(rank), self.random.randint(1, rank))
        return {axes.attribute: chosen, axes.counted_by: len(chosen)}

    def _connect(
        self, operator: dml.Operator, views: dict[str, tuple[Source | None, dml.TensorDesc]], output: dml.TensorDesc
    ) -> None:
        sources = {member: source or self._new_source(tensor) for member, (source, tensor) in views.items()}
        index = len(self.nodes)
        self.nodes.append(OperatorGraphNode(operator, f"n{index}"))
        self.descs[index] = operator.desc
        for number, (field, _) in enumerate(operator.desc.inputs):
            source = sources.get(field.attribute)
            if source is None:
                continue  # an optional tensor that is absent
            if source.kind == "input":
                self.input_edges.append(InputGraphEdge(source.index, index, number))
            else:
                self.between.append(IntermediateGraphEdge(source.index, 0, index, number))
                self.read.add(source.index)
        self.sources.append(Source("node", index, output))

    def _new_source(self, tensor: dml.TensorDesc) -> Source:
        if self.random.random() < 0.25:
            array = self._array(tensor)
            contents = np.zeros(tensor.size_in_bytes, np.uint8)
            laid_out = contents[: tensor.span_in_elements * array.itemsize].view(array.dtype)
            steps = [stride * array.itemsize for stride in tensor.element_strides]
            np.lib.stride_tricks.as_strided(laid_out, array.shape, steps)[...] = array
            self.nodes.append(ConstantGraphNode(contents))
            source = Source("constant", len(self.nodes) - 1, tensor)
        else:
            self.input_tensors.append(tensor)
            source = Source("input", len(self.input_tensors) - 1, tensor)
        self.sources.append(source)
        return source

    def _source_of_width(self, data_type: dml.DataType) -> Source | None:
        """Mostly one of this type; sometimes one of its width, whose bits are taken for it; sometimes none."""
        if self.random.random() < 0.1:
            return None
        same = [source for source in self.sources if source.tensor.data_type is data_type]
        if not same or self.random.random() < 0.15:
            same = [s for s in self.sources if s.tensor.data_type.size_in_bits == data_type.size_in_bits]
        if not same:
            return None
        return self.random.choice(same[-6:] if self.random.random() < 0.7 else same)

    def _seen_again(self, source: Source) -> tuple[Sizes, Sizes]:
        """A source's elements, each once: as they were written, in another order of the axes, or in another shape."""
        sizes, strides = tuple(source.tensor.sizes), source.tensor.element_strides
        chance = self.random.random()
        if chance < 0.15:
            order = list(range(len(sizes)))
            self.random.shuffle(order)
            return tuple(sizes[axis] for axis in order), tuple(strides[axis] for axis in order)
        if chance < 0.35 and source.tensor.is_packed:
            reshaped = [s for s in _SIZES if math.prod(s) == math.prod(sizes)]
            if reshaped:
                chosen = self.random.choice(reshaped)
                return chosen, packed_strides(chosen)
        return sizes, strides

    def _second(self, data_type: dml.DataType, sizes: Sizes) -> tuple[Source | None, dml.TensorDesc]:
        """Something to be read along ``sizes``: of the same shape, broadcast, or new."""
        if self.random.random() < 0.75:
            candidates = [s for s in self.sources if s.tensor.data_type is data_type] or [
                s for s in self.sources if s.tensor.data_type.size_in_bits == data_type.size_in_bits
            ]
            self.random.shuffle(candidates)
            for source in candidates:
                strides = _view_along(source.tensor, sizes)
                if strides is not None:
                    return source, dml.TensorDesc(data_type, sizes, strides, source.tensor.size_in_bytes)
        return None, dml.TensorDesc(data_type, sizes, self._input_strides(sizes))

    def _input_strides(self, sizes: Sizes) -> Sizes | None:
        chance = self.random.random()
        if chance < 0.5:
            return None
        if chance < 0.6:
            return (0,) * len(sizes)
        return self._strides(sizes, broadcasts=chance < 0.8)

    def _output_strides(self, sizes: Sizes) -> Sizes | None:
        return None if self.random.random() < 0.75 else self._strides(sizes, broadcasts=False)

    def _strides(self, sizes: Sizes, broadcasts: bool) -> Sizes:
        """Nested in any order, with gaps here and there."""
        order = list(range(len(sizes)))
        self.random.shuffle(order)
        strides = [0] * len(sizes)
        extent = 1
        for axis in order:
            if broadcasts and self.random.random() < 0.4:
                continue
            strides[axis] = extent + self.random.choice((0, 0, 0, 1, 3))
            extent += (sizes[axis] - 1) * strides[axis]
        return tuple(strides)

    def _array(self, tensor: dml.TensorDesc) -> Array:
        """Special patterns and random ones, the same wherever the strides read one element."""
        numpy_random = np.random.default_rng(self.random.randrange(2**32))
        dtype = tensor.data_type.numpy_dtype
        span = tensor.span_in_elements
        random_bits = numpy_random.integers(0, 256, span * dtype.itemsize, np.uint8).view(dtype)
        special = patterns.special_patterns(tensor.data_type).view(dtype)
        short = patterns.short_patterns(tensor.data_type, span, numpy_random).view(dtype)
        which = numpy_random.integers(0, 3, span)
        memory = np.where(which == 0, random_bits, np.where(which == 1, numpy_random.choice(special, span), short))
        steps = [stride * dtype.itemsize for stride in tensor.element_strides]
        return np.lib.stride_tricks.as_strided(memory, tuple(tensor.sizes), steps).copy()


@functools.cache
def _operands(operator_name: str) -> list[tuple[dict[str, dml.DataType], tuple[str, ...]]]:
    return list(supported_operands(REGULAR_OPERATORS[operator_name]))


def _view_along(tensor: dml.TensorDesc, sizes: Sizes) -> Sizes | None:
    """Strides with which a tensor can be read along other sizes; ``None`` when there are none to think of."""
    own = tuple(tensor.sizes)
    if own == sizes:
        return tensor.element_strides
    if tensor.element_count == math.prod(sizes) and tensor.is_packed:
        return packed_strides(sizes)
    if len(own) <= len(sizes):
        padded = (1,) * (len(sizes) - len(own)) + own
        strides = (0,) * (len(sizes) - len(own)) + tensor.element_strides
        if all(size in (1, wanted) for size, wanted in zip(padded, sizes, strict=True)):
            return tuple(0 if size == 1 else stride for size, stride in zip(padded, strides, strict=True))
    return None
