"""Values that are computed when they are needed: consecutive element-wise operations become one graph, and one kernel.

An element-wise operation makes a :class:`Value` that knows its operands. When its elements are needed, it and what it
is made of become a graph, which the graph compiler fuses; graphs are kept compiled by their structure. What was checked
when the operation was called is not checked again. Bits do not depend on how operations are gathered: fused kernels
compute what the operators compute one by one.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.arrays.values import Shape, Value
from dmlvk.datatypes import DataType
from dmlvk.graphs.builder import Graph
from dmlvk.graphs.expression import Expression

if TYPE_CHECKING:
    from dmlvk.device import Device
    from dmlvk.graphs.compiled import CompiledGraph

MOST_PENDING = 32  # Operations that are gathered into one graph at most: what is longer is computed on the way


@dataclasses.dataclass(frozen=True)
class Operation:
    """What is computed: a function of expressions, and of numbers that belong to the graph.

    Attributes:
        function: called with the operands' expressions, or the graph where there are none, and the attributes.
        attributes: whatever has a text that tells it from others.
        number: which of the function's results is meant, where it gives a tuple.
    """

    function: Callable[..., Any]
    attributes: tuple[Any, ...] = ()
    number: int = 0

    @functools.cached_property
    def key(self) -> Hashable:
        """Equal for operations that compute the same; attributes by their text, since -0 equals 0."""
        return self.function, repr(self.attributes), self.number

    def compute(self, value: Value) -> None:
        """Computes its result, in one graph with what that waits for."""
        _compute([value])


def deferred(
    device: Device, operation: Operation, operands: Sequence[Value], data_type: DataType, shape: Shape
) -> Value:
    """The result of an element-wise operation, which is computed when it is needed."""
    made = tuple(operands)
    if 1 + sum(one.weight for one in made) > MOST_PENDING:
        for one in made:
            one.memory()
    return Value(device, data_type, shape, operation=operation, operands=made)


def computed(
    device: Device,
    form: Callable[..., Any],  # as an operation's function, of as many results as are described
    attributes: tuple[Any, ...],
    operands: Sequence[Value],
    results: Sequence[tuple[DataType, Shape]],
) -> list[Value]:
    """The results of a function, computed now, in one graph with what its operands wait for."""
    values = [
        Value(device, data_type, shape, operation=Operation(form, attributes, number), operands=tuple(operands))
        for number, (data_type, shape) in enumerate(results)
    ]
    _compute(values)
    return values


def number(device: Device, value: float, data_type: DataType) -> Value:
    """A number of Python as a value without axes: in memory, so that other numbers need no other graph."""
    with np.errstate(over="ignore"):  # infinity
        bits = np.array(value).astype(data_type.numpy_dtype)
    key = data_type, bits.tobytes()
    programs = device.arrays.programs
    known = programs.get("number", key) or programs.keep("number", key, device.array(bits).memory())
    return Value(device, data_type, (), known)


def _compute(values: Sequence[Value]) -> None:
    """Computes values of one device, and what somebody needs of what they wait for."""
    for value in values:
        value.handles += 1
    try:
        Trace(values).run(values[0].device)
    finally:
        for value in values:
            value.handles -= 1


class _Key:
    """What tells traces from others: parts that are looked at once for all look-ups."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, parts: Hashable) -> None:
        self._parts, self._hash = parts, hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._parts == other._parts


class Trace:
    """What waits, in an order in which it can be computed, as one graph.

    Args:
        pending: values that wait, of one device.

    Attributes:
        steps: those, and before each what else it waits for.
        inputs: the operands that are in memory.
        key: equal for traces that are computed alike.
    """

    def __init__(self, pending: Iterable[Value]) -> None:
        self.steps: list[Value] = []
        self.inputs: list[TensorMemory] = []
        self._numbers: dict[Value, int] = {}
        self._parts: list[tuple[Any, ...]] = []
        self._uses: Counter[Value] = Counter()
        for value in pending:
            if value not in self._numbers:
                self._number(value)
        # What only this graph reads is not written: a use outside of it, or an array of the user's, needs it.
        self._needed = [
            number
            for number, value in enumerate(self.steps)
            if value.handles > 0 or (value.uses and value.uses > self._uses[value])
        ]
        self.key = _Key((tuple(self._parts), tuple(self._needed)))

    def _number(self, value: Value) -> int:
        """Adds a value behind everything that it is made of; returns which one it is."""
        numbers, operands = self._numbers, value.operands_if_pending()
        part: list[Any]
        if operands is None:
            memory = value.memory()
            if memory.offset and memory.offset % memory.tensor.binding_alignment:
                memory = value.device.arrays.moved(memory)
            self.inputs.append(memory)
            tensor = memory.tensor
            part = [tensor.data_type, tensor.sizes, tensor.strides]
        else:
            assert isinstance(value.operation, Operation)  # what waits has one
            part = [value.operation.key, value.shape]
            for one in operands:
                number = numbers.get(one)
                part.append(self._number(one) if number is None else number)
                if one.uses:
                    self._uses[one] += 1
            self.steps.append(value)
        self._parts.append(tuple(part))
        number = numbers[value] = len(numbers)
        return number

    def run(self, device: Device) -> None:
        """Computes what somebody needs."""
        if not self._needed:
            return
        programs = device.arrays.programs
        program, taken, given = programs.get("graph", self.key) or programs.keep(
            "graph", self.key, self._compiled(device)
        )
        values = [self.steps[number] for number in given]
        inputs = [self.inputs[number] for number in taken]
        made = device.arrays.execute_fitting(program, inputs, [value.wish() for value in values])
        for value, memory in zip(values, made, strict=True):
            value.settle(memory)

    def _compiled(self, device: Device) -> tuple[CompiledGraph, list[int], list[int]]:
        """The graph, ready to run; which inputs it takes, since nothing depends on others, and which steps it gives."""
        graph, outputs = self._graph(device, None)
        names = graph.inputs_of(outputs.values())
        if len(names) < graph.input_count:
            graph, outputs = self._graph(device, names)
        program = graph.compile(outputs)
        taken, given = ([int(point.name) for point in points] for points in (program.inputs, program.outputs))
        return program, taken, given

    def _graph(self, device: Device, names: Collection[str] | None) -> tuple[Graph, dict[str, Expression]]:
        """The graph and its outputs; of the inputs only those of these names are there, others are constants."""
        graph = Graph(device)
        made: list[Expression] = []
        calls: dict[Hashable, Any] = {}  # results of functions that give several
        inputs, steps = (map(str, itertools.count()) for _ in range(2))
        outputs: dict[str, Expression] = {}
        for value, part in zip(self._numbers, self._parts, strict=True):
            if isinstance(part[0], DataType):  # in memory
                name = next(inputs)
                is_there = names is None or name in names
                made.append(graph.input(name, *part) if is_there else graph.constant(0, part[0]).broadcast_to(part[1]))
                continue
            assert isinstance(value.operation, Operation)  # what waits has one
            function, attributes, key = value.operation.function, value.operation.attributes, part[0][:2]
            operands = part[2:]
            if (key, operands) not in calls:
                result = function(*([made[one] for one in operands] or (graph,)), *attributes)
                calls[key, operands] = result if isinstance(result, tuple) else (result,)
            made.append(_shaped(calls[key, operands][value.operation.number], value))
            outputs[next(steps)] = made[-1]
        return graph, {name: outputs[name] for name in map(str, self._needed)}


def _shaped(expression: Expression, value: Value) -> Expression:
    wanted = value.memory_shape
    assert expression.data_type is value.data_type, (expression, value.data_type)
    if expression.sizes == wanted:
        return expression
    if math.prod(expression.sizes) != math.prod(wanted):
        return expression.broadcast_to(wanted)
    from dmlvk import functions

    packed: Expression = expression if expression.tensor.is_packed else functions.identity(expression)
    return packed.reshape(wanted)
