"""Values that are computed when they are needed: consecutive element-wise operations become one graph, and one kernel.

An element-wise operation makes a :class:`Value` that knows its operands. When its elements are needed, it and what it
is made of become a graph, which the graph compiler fuses; graphs are kept compiled by their structure. What was checked
when the operation was called is not checked again. Bits do not depend on how operations are gathered: fused kernels
compute what the operators compute one by one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Hashable, Sequence
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
        is_elementwise: whether it may wait for what else is done with its result.
    """

    function: Callable[..., Any]
    attributes: tuple[Any, ...] = ()
    is_elementwise: bool = False

    @functools.cached_property
    def key(self) -> Hashable:
        """Equal for operations that compute the same; numbers by their text, since -0 equals 0."""
        return self.function, repr(self.attributes)

    def evaluated(self, device: Device, operands: tuple[Value, ...], results: Sequence[Value]) -> list[TensorMemory]:
        """Computes results, in one graph with what the operands wait for."""
        return _evaluated(device, self, operands, results)


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
    device: Device, operation: Operation, operands: Sequence[Value], results: Sequence[tuple[DataType, Shape]]
) -> list[Value]:
    """The results of an operation, computed now, in one graph with what its operands wait for.

    Args:
        operation: of as many results as are described.
    """
    values = [Value(device, data_type, shape) for data_type, shape in results]
    for value, memory in zip(values, _evaluated(device, operation, tuple(operands), values), strict=True):
        value.settle(memory)
    return values


def number(device: Device, value: float, data_type: DataType) -> Value:
    """A number of Python as a value without axes: in memory, so that other numbers need no other graph."""
    with np.errstate(over="ignore"):  # infinity
        bits = np.array(value).astype(data_type.numpy_dtype)
    key = data_type, bits.tobytes()
    programs = device.arrays.programs
    known = programs.get("number", key) or programs.keep("number", key, device.array(bits).memory())
    return Value(device, data_type, (), known)


def _evaluated(
    device: Device, operation: Operation, operands: tuple[Value, ...], results: Sequence[Value]
) -> list[TensorMemory]:
    """Runs an operation with everything that its operands wait for; what waited and somebody needs has memory then."""
    plan = ShapePlan(operation, operands)
    program = plan.program(device, results)
    made = device.arrays.execute(program, {point.name: plan.inputs[point.name] for point in program.inputs})
    for number, value in plan.others:
        value.settle(made[f"value {number}"])
    return [made[f"result {number}"] for number in range(len(results))]


class ShapePlan:
    """What a graph consists of: operations that wait, in an order in which they can be computed.

    Args:
        operation: the last one; ``None``: nothing but what the operands wait for is computed.

    Attributes:
        inputs: arrays by the names of the graph's inputs.
        others: operations on the way whose values somebody else needs, too, with their places.
        key: equal for plans of one structure.
    """

    def __init__(self, operation: Operation | None, operands: tuple[Value, ...]) -> None:
        self._operation, self._operands = operation, operands
        self._steps: list[tuple[Value, tuple[Value, ...] | None]] = []
        self._indices: dict[int, int] = {}
        for operand in operands:
            self._add(operand)
        self.inputs = {
            f"input {index}": value.memory() for index, (value, parts) in enumerate(self._steps) if parts is None
        }
        uses = [0] * len(self._steps)
        counted = [parts for _, parts in self._steps if parts is not None]
        for parts in [operands, *counted] if operation is not None and operation.is_elementwise else counted:
            for part in parts:
                uses[self._indices[id(part)]] += 1
        # What only this graph reads is not written: a use outside of it, or an array of the user's, needs it.
        self.others = [
            (index, value)
            for index, (value, parts) in enumerate(self._steps)
            if parts is not None and (value.handles > 0 or value.uses > uses[index])
        ]
        self.key: tuple[Hashable, ...] = (
            () if operation is None else operation.key,
            () if operation is None else tuple(self._indices[id(one)] for one in operands),
            tuple([self._key_of(index) for index in range(len(self._steps))]),
            tuple([index for index, _ in self.others]),
        )

    def _add(self, root: Value) -> None:
        """Adds a value behind everything that it is made of."""
        pending: list[tuple[Value, tuple[Value, ...] | None, bool]] = [(root, root.operands_if_pending(), False)]
        while pending:
            value, parts, is_ready = pending.pop()
            if id(value) in self._indices:
                continue
            if parts is None or is_ready:
                self._indices[id(value)] = len(self._steps)
                self._steps.append((value, parts))
                continue
            pending.append((value, parts, True))
            pending += [(part, part.operands_if_pending(), False) for part in parts if id(part) not in self._indices]

    def _key_of(self, index: int) -> Hashable:
        value, parts = self._steps[index]
        if parts is None:
            tensor = self.inputs[f"input {index}"].tensor
            return tensor.data_type, tensor.sizes, tensor.strides
        assert isinstance(value.operation, Operation)  # what waits has one
        return value.operation.key, value.shape, tuple([self._indices[id(part)] for part in parts])

    def value_of(self, name: str) -> Value:
        """What one of the graph's inputs is, or an output that is not the operation's."""
        return self._steps[int(name.rpartition(" ")[2])][0]

    def program(self, device: Device, results: Sequence[Value]) -> CompiledGraph:
        """The graph that computes results and what else somebody needs, kept for plans of the same structure."""
        key = (*self.key, tuple((one.data_type, one.memory_shape) for one in results))
        programs = device.arrays.programs
        found: CompiledGraph = programs.get("program", key) or programs.keep(
            "program", key, self._compiled(device, results)
        )
        return found

    def _compiled(self, device: Device, results: Sequence[Value]) -> CompiledGraph:
        """The graph, ready to run; inputs on which nothing depends are left out."""
        graph, outputs = self._graph(device, results, self.inputs)
        names = graph.inputs_of(outputs.values())
        if len(names) < graph.input_count:
            graph, outputs = self._graph(device, results, names)
        return graph.compile(outputs)

    def _graph(
        self, device: Device, results: Sequence[Value], names: Collection[str]
    ) -> tuple[Graph, dict[str, Expression]]:
        """The graph and its outputs; of the inputs only those of these names are there, others are constants."""
        graph = Graph(device)
        made: list[Expression] = []
        for index, (value, parts) in enumerate(self._steps):
            if parts is not None:
                assert isinstance(value.operation, Operation)  # what waits has one
                expression = _applied(graph, value.operation, [made[self._indices[id(part)]] for part in parts])
                made.append(_shaped(expression, value))
                continue
            name, tensor = f"input {index}", self.inputs[f"input {index}"].tensor
            if name in names:
                made.append(graph.input(name, tensor.data_type, tensor.sizes, tensor.strides))
            else:
                made.append(graph.constant(0, tensor.data_type).broadcast_to(tensor.sizes))
        outputs = {f"value {index}": made[index] for index, _ in self.others}
        if self._operation is not None:
            root = _applied(graph, self._operation, [made[self._indices[id(one)]] for one in self._operands])
            found = root if isinstance(root, tuple) else (root,)
            outputs |= {
                f"result {number}": _shaped(one, value)
                for number, (one, value) in enumerate(zip(found, results, strict=True))
            }
        return graph, outputs


def _applied(graph: Graph, operation: Operation, operands: Sequence[Expression]) -> Any:
    return operation.function(*(operands or (graph,)), *operation.attributes)


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
