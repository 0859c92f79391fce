"""Recurrent networks step by step, from single operators: what DirectML's RNN, GRU and LSTM do not have.

That is a threshold (clip) as ONNX has it, of what goes into the gates (LSTM's own, and the only one of DirectML, is of
the cell, too), and DynamicQuantizeLSTM, whose inputs and states become integers at each
step, by what their elements ask for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from onnx import TensorProto

from dmlvk.onnx.nodes.operators.matrix import matmul
from dmlvk.onnx.nodes.operators.quantization import dynamically
from dmlvk.onnx.nodes.operators.quantized import integer_product
from dmlvk.onnx.nodes.operators.rotary import join, split
from dmlvk.onnx.nodes.translation import Node
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor
from dmlvk.operators import FusedActivation

_MOST_STEPS = 256  # Of all directions together: each is several operators, which are planned and launched one by one

_INPUT_LENGTHS, _INPUT_HIDDEN, _INPUT_CELL = 4, 5, 6

Product = Callable[[Tensor], Tensor]  # Rows times a matrix

Cell = Callable[[Tensor, Tensor, "Tensor | None"], "tuple[Tensor, Tensor | None]"]
"""From a step's part that does not depend on states, and the states: the next states, hidden and of the cell."""


@dataclasses.dataclass(frozen=True)
class Gates:
    """What the gates of a direction have in common."""

    node: Node  # the node
    activations: Sequence[FusedActivation]  # in ONNX's order
    clip: float  # the threshold; 0: none

    def bent(self, index: int, tensor: Tensor) -> Tensor:
        """An activation of what the threshold leaves."""
        if self.clip:
            low, high = -self.clip, self.clip
            tensor = self.node.apply(
                "ELEMENT_WISE_CLIP1", input_tensor=tensor, min_max_data_type=tensor.data_type, min=low, max=high
            )
        return self.plain(index, tensor)

    def plain(self, index: int, tensor: Tensor) -> Tensor:
        activation = self.activations[index]
        values = {field.attribute: value for field, value in activation.attributes}
        return self.node.apply(activation.operator_name, input_tensor=tensor, **values)


def _mixed(share: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return (1.0 - share) * new + share * old


def rnn_cell(gates: Gates, recurrent: Product, bias: Tensor) -> Cell:
    """``f(Wx + Rh + b)``; the bias is that of both products."""

    def step(given: Tensor, hidden: Tensor, _: Tensor | None) -> tuple[Tensor, None]:
        return gates.bent(0, given + recurrent(hidden) + bias), None

    return step


def gru_cell(
    gates: Gates, first: Product, last: Product, biases: tuple[Tensor, Tensor, Tensor], *, linear_before_reset: bool
) -> Cell:
    """Update, reset, hidden.

    Args:
        first: the hidden state's product with the matrices of update and reset.
        last: its product with that of hidden.
        biases: both of update and reset; of hidden that of the input, and that of the state.
        linear_before_reset: whether the product is reset, or what is multiplied.
    """

    def step(given: Tensor, hidden: Tensor, _: Tensor | None) -> tuple[Tensor, None]:
        node, units = gates.node, hidden.shape[1]
        both, own = split(node, given, [2 * units, units])
        update, reset = split(node, gates.bent(0, both + first(hidden) + biases[0]), [units, units])
        if linear_before_reset:
            new = gates.bent(1, own + reset * (last(hidden) + biases[2]) + biases[1])
        else:
            new = gates.bent(1, own + last(reset * hidden) + biases[2] + biases[1])
        return _mixed(update, new, hidden), None

    return step


def lstm_cell(
    gates: Gates, recurrent: Product, bias: Tensor | None, peepholes: Sequence[Tensor] | None, *, coupled: bool
) -> Cell:
    """Input, output, forget, cell.

    Args:
        recurrent: the hidden state's product with the matrices of all four.
        peepholes: of input, output and forget.
        coupled: whether as much is forgotten as is not taken in.
    """

    def step(given: Tensor, hidden: Tensor, cell: Tensor | None) -> tuple[Tensor, Tensor]:
        assert cell is not None  # an LSTM has one
        node, units = gates.node, hidden.shape[1]
        total = given + recurrent(hidden)
        total = total if bias is None else total + bias
        parts = split(node, total, [units] * 4)

        def looked(index: int, at: Tensor) -> Tensor:
            return parts[index] if peepholes is None else parts[index] + peepholes[index] * at

        taken = gates.bent(0, looked(0, cell))
        candidate = gates.bent(1, parts[3])
        if coupled:
            new = _mixed(taken, cell, candidate)
        else:
            kept = gates.bent(0, looked(2, cell))
            new = kept * cell + taken * candidate
        return gates.bent(0, looked(1, new)) * gates.plain(2, new), new

    return step


@dataclasses.dataclass(frozen=True)
class Direction:
    given: Tensor  # the part of each step that does not depend on states: steps * batch, gates * units
    cell: Cell  # a step
    hidden: Tensor  # the state before the first step: batch, units
    memory: Tensor | None  # the cell's; ``None``: there is none
    is_backward: bool  # whether the last step comes first


def check_steps(steps: int, directions: int) -> None:
    """Refuses a network of more steps than are sensible as single operators."""
    if steps * directions > _MOST_STEPS:
        raise NotOnDevice(
            f"{steps * directions} steps, each of which would be several operators, are more than the "
            f"{_MOST_STEPS} that are sensible on the device"
        )


def set_outputs(node: Node, directions: Sequence[Direction], steps: int, batch: int, *, is_batch_first: bool) -> None:
    """Goes through all steps, and sets the outputs: all hidden states, the last ones, and those of the cells."""
    alive = _alive(node, steps, batch)
    found = [_unrolled(node, direction, steps, batch, alive) for direction in directions]
    element = directions[0].given.element
    units = directions[0].hidden.shape[1]
    if node.wants(0):
        ways = [way[0].viewed((steps, 1, batch, units)) for way in found]
        every = _joined(node, ways, 1)
        node.set(every.transposed([2, 0, 1, 3]) if is_batch_first else every, 0)
    for index, states in ((1, [way[1] for way in found]), (2, [way[2] for way in found])):
        if node.wants(index):
            given = [state.viewed((1, batch, units)) for state in states if state is not None]
            last = _joined(node, given, 0)
            assert last.element == element  # as everything here
            node.set(last.transposed([1, 0, 2]) if is_batch_first else last, index)


def _joined(node: Node, parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else join(node, parts, axis)


def _alive(node: Node, steps: int, batch: int) -> list[Tensor] | None:
    """Which sequences have each step; ``None``: all have all."""
    if not node.has(_INPUT_LENGTHS):
        return None
    lengths = node.cast(node.tensor(_INPUT_LENGTHS), TensorProto.INT32)
    if lengths.shape != (batch,):
        raise NotOnDevice(f"{list(lengths.shape)} are not the lengths of {batch} sequences")
    column = lengths.viewed((batch, 1))
    return [column > step for step in range(steps)]


def _unrolled(
    node: Node, direction: Direction, steps: int, batch: int, alive: list[Tensor] | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The hidden states of all steps, the last one, and that of the cell.

    Backwards, shorter sequences begin at their own last step together with the others.
    """
    is_reversed = direction.is_backward and alive is not None
    given = _reversed(node, direction.given, steps, batch) if is_reversed else direction.given
    parts = split(node, given, [batch] * steps, 0) if steps > 1 else (given,)
    hidden, memory = direction.hidden, direction.memory
    last = hidden
    zero = node.scalar(0.0, hidden.element).viewed(())
    shown: list[Tensor] = [hidden] * steps
    for step in reversed(range(steps)) if direction.is_backward and not is_reversed else range(steps):
        new, new_memory = direction.cell(parts[step], hidden, memory)
        if alive is None:
            last = new
        else:  # a sequence that has ended goes on with zeros, which its last states do not see
            last = alive[step].where(new, last)
            new = alive[step].where(new, zero)
            if memory is not None and new_memory is not None:
                new_memory = alive[step].where(new_memory, memory)
        shown[step] = new
        hidden, memory = new, new_memory
    every = _joined(node, shown, 0)
    return (_reversed(node, every, steps, batch) if is_reversed else every), last, memory


def _reversed(node: Node, rows: Tensor, steps: int, batch: int) -> Tensor:
    """Steps * batch rows, of each sequence those that it has in the opposite order."""
    lengths = node.cast(node.tensor(_INPUT_LENGTHS), TensorProto.INT64)
    seen = node.reshaped(rows, (steps, batch, rows.shape[1]))
    made = node.apply(
        "REVERSE_SUBSEQUENCES",
        input_tensor=seen,
        sequence_lengths_tensor=lengths.viewed((1, batch, 1), element=TensorProto.UINT64).broadcast(
            (1, batch, rows.shape[1])
        ),
        axis=0,
    )
    return made.viewed(rows.shape)


def part_of(node: Node, tensor: Tensor, direction: int) -> Tensor:
    """A direction's part, without its axis, which is the first one."""
    count = tensor.shape[0]
    found = tensor if count == 1 else split(node, tensor, [1] * count, 0)[direction]
    return found.viewed(tensor.shape[1:], found.strides[1:])


def start_of(node: Node, index: int, direction: int, batch: int, units: int, *, is_batch_first: bool) -> Tensor:
    """A state before the first step: 0 where none is given."""
    if not node.has(index):
        return node.scalar(0.0, node.element(0)).viewed(()).broadcast((batch, units))
    tensor = node.tensor(index)
    return part_of(node, tensor.transposed([1, 0, 2]) if is_batch_first else tensor, direction)


def times(node: Node, matrix: Tensor) -> Product:
    """Rows times a matrix that lies transposed."""
    turned = matrix.transposed([1, 0])
    return lambda rows: matmul(node, rows, turned)


def clipped_network(
    node: Node, activations: Sequence[FusedActivation], source: Tensor, ways: Sequence[bool], *, is_batch_first: bool
) -> None:
    """Sets the outputs of a network with a threshold.

    Args:
        ways: of each direction whether the last step comes first.
    """
    steps, batch, inputs = source.shape
    check_steps(steps, len(ways))
    rows = node.reshaped(source, (steps * batch, inputs))
    count = len(activations) // len(ways)
    directions = []
    for number, is_backward in enumerate(ways):
        weights, recurrence = (part_of(node, node.tensor(index), number) for index in (1, 2))
        units = recurrence.shape[1]
        gates = Gates(node, activations[number * count : (number + 1) * count], abs(node.real("clip")))
        hidden = start_of(node, _INPUT_HIDDEN, number, batch, units, is_batch_first=is_batch_first)
        given = matmul(node, rows, weights.transposed([1, 0]))
        cell = _clipped_cell(node, gates, recurrence, number, units)
        memory = None
        if node.op_type == "LSTM":
            memory = start_of(node, _INPUT_CELL, number, batch, units, is_batch_first=is_batch_first)
        directions.append(Direction(given, cell, hidden, memory, is_backward))
    set_outputs(node, directions, steps, batch, is_batch_first=is_batch_first)


def _clipped_cell(node: Node, gates: Gates, recurrence: Tensor, number: int, units: int) -> Cell:
    gated = recurrence.shape[0] // units
    if node.has(3):
        bias = part_of(node, node.tensor(3), number)
    else:
        bias = node.scalar(0.0, recurrence.element).viewed(()).broadcast((2 * gated * units,))
    if gated == 1:
        own, other = split(node, bias, [units, units])
        return rnn_cell(gates, times(node, recurrence), own + other)
    if node.op_type == "LSTM":
        peepholes = split(node, part_of(node, node.tensor(7), number), [units] * 3) if node.has(7) else None
        own, other = split(node, bias, [4 * units] * 2)
        return lstm_cell(
            gates, times(node, recurrence), own + other, peepholes, coupled=bool(node.integer("input_forget"))
        )
    both, own, other_both, other = split(node, bias, [2 * units, units] * 2)
    first, last = split(node, recurrence, [2 * units, units], 0)
    biases = (both + other_both, own, other)
    is_linear = bool(node.integer("linear_before_reset"))
    return gru_cell(gates, times(node, first), times(node, last), biases, linear_before_reset=is_linear)


def quantized_lstm(node: Node, activations: Sequence[FusedActivation], ways: Sequence[bool]) -> None:
    """Sets the outputs of DynamicQuantizeLSTM: weights are integers, and so become inputs and hidden states.

    Args:
        ways: of each direction whether the last step comes first.
    """
    source = node.tensor(0)
    steps, batch, inputs = source.shape
    check_steps(steps, len(ways))
    rows = node.reshaped(source, (steps * batch, inputs))
    directions = []
    for number, is_backward in enumerate(ways):
        gates = Gates(node, activations[3 * number : 3 * number + 3], abs(node.real("clip")))
        by_inputs, by_states = (_quantized_product(node, *position, number) for position in ((1, 8, 9), (2, 10, 11)))
        units = node.shape(2)[1]
        bias = None
        if node.has(3):
            own, other = split(node, part_of(node, node.tensor(3), number), [4 * units] * 2)
            bias = own + other
        peepholes = split(node, part_of(node, node.tensor(7), number), [units] * 3) if node.has(7) else None
        hidden, memory = (
            start_of(node, index, number, batch, units, is_batch_first=False) for index in (_INPUT_HIDDEN, _INPUT_CELL)
        )
        cell = lstm_cell(gates, by_states, bias, peepholes, coupled=bool(node.integer("input_forget")))
        directions.append(Direction(by_inputs(rows), cell, hidden, memory, is_backward))
    set_outputs(node, directions, steps, batch, is_batch_first=False)


def _quantized_product(node: Node, weights: int, scale: int, zero: int, direction: int) -> Product:
    """Rows, quantized as their elements ask for, times a matrix of integers; a scale for all, or for each column."""
    matrix = part_of(node, node.tensor(weights), direction)

    def parameter(index: int) -> Tensor:
        tensor = node.tensor(index)
        found = part_of(node, tensor if tensor.rank > 1 else tensor.viewed((*tensor.shape, 1)), direction)
        return found.viewed((1, found.shape[0]))

    scales, zeros = parameter(scale), parameter(zero)

    def product(rows: Tensor) -> Tensor:
        return integer_product(node, dynamically(node, rows), (matrix, scales, zeros), bias=None)

    return product
