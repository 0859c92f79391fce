"""Lowers RNN, LSTM and GRU: products of the input for many steps at once, then each step by one launch.

Weights, states and products stay on the device; all steps share their kernels, which are told the time by parameters.

A step's launch multiplies the state, and computes the next one at once: ``patterns/composed/recurrent_products.glsl``
on GPUs, ``recurrent_processors.glsl`` on processors. What other work groups read it must not overwrite, so that the
state lies in two places in turn. GRU takes two launches where it is not linear before the reset: the last gate
multiplies the states of all units times their reset gates, each of which is a product with the states of all units, and
no work group of Vulkan can wait for all others.

There are as many launches more, of GEMM's kernels, where those are faster: ``recurrent_steps.step_tile``.

Where the number of steps is an open size, there are launches up to the next power of two, and those of steps that a run
does not have compute nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import applied, is_dynamic, value_of
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.composed.recurrent_steps import StepShape, StepTime, has_unusual, launched, step_kernel, step_tile
from dmlvk.kernels.elementwise.elementwise import converted_bits
from dmlvk.kernels.kernel import PlainKernel
from dmlvk.kernels.products.matrix import float32_sum_kernels, gemm_product
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.operators import Gemm, Gru, Lstm, MatrixTransform, Rnn, operator_desc
from dmlvk.operators.recurrent import RecurrentNetworkDirection, direction_count
from dmlvk.tensors import TensorDesc, packed_strides

_HAS_BIAS, _HAS_PEEPHOLES, _HAS_LENGTHS, _HAS_CLIP, _IS_COUPLED, _HAS_SEQUENCE = (1 << bit for bit in range(6))
"""As in ``shaders/patterns/composed/recurrent.glsl``."""

_MOST_PROJECTIONS = 2**28  # Bytes of products of the input that are kept at a time

Recurrent = Rnn | Lstm | Gru


@lowering(Rnn, Lstm, Gru)
def lower(desc: Recurrent, target: Target) -> Program:
    return _RecurrentProgram(desc, target).program()


@dataclasses.dataclass(frozen=True)
class _Kernels:
    """Launches that are the same for every step, with what they read and write."""

    kernels: Sequence[PlainKernel]
    left: Region
    right: Region
    sums: Region

    def add(self, builder: ProgramBuilder, label: str, *, is_independent: bool = False, count: int = 1) -> None:
        for number, kernel in enumerate(self.kernels):
            free = is_independent and number == 0
            kernel = launched(kernel, count)
            builder.launch(kernel, [self.left, self.right, self.left], [self.sums], label=label, is_independent=free)


def _rounded_up(steps: int) -> int:
    """The power of two that steps do not exceed, but would the half of it: guards of a plan."""
    most = 1 << (value_of(steps) - 1).bit_length()
    assert most // 2 < steps <= most
    return most


def _is_some(steps: int) -> int:
    return int(steps > 0)


def _at_least_0(time: int) -> int:
    return max(time, 0)


class _RecurrentProgram:
    """A program in the making.

    Attributes:
        builder: what it is put together with.
        gates: of the operator.
        directions: one or two.
        steps: of the input.
        batch: sequences.
        hidden: units of the state of a sequence and direction.
        row: the same with what fills the last word.
        steps_at_once: of how many steps the input's products are there at a time.
        product: of the state with the weights of all gates.
        tile: of kernels that make it and the next state; ``None``: it is made before.
    """

    def __init__(self, desc: Recurrent, target: Target) -> None:
        self.desc = desc
        self.target = target
        self.builder = ProgramBuilder(desc, target)
        self.data_type = desc.input_tensor.data_type
        _, self.steps, self.batch, _ = desc.input_tensor.sizes
        self.hidden = desc.recurrence_tensor.sizes[3]
        self.gates = desc.recurrence_tensor.sizes[2] // self.hidden
        self.directions = direction_count(desc)
        units_of_word = 32 // self.data_type.size_in_bits
        self.words = -(-self.hidden // units_of_word)
        self.row = self.words * units_of_word
        self.is_product_reset = isinstance(desc, Gru) and not desc.linear_before_reset
        step_bytes = self.batch * self.gates * self.hidden * 4
        most = min(target.buffer_size, _MOST_PROJECTIONS) // (step_bytes * self.directions)
        if not most:
            raise DeviceLimitError(
                f"{desc.operator_name}: the products of one step take {step_bytes * self.directions} bytes; at most "
                f"{min(target.buffer_size, _MOST_PROJECTIONS)} can be kept"
            )
        # Steps that begin at multiples of eight elements need no copy of the input.
        self.steps_at_once = min(self.steps, most if most < 8 else most // 8 * 8)
        self.is_open = is_dynamic(self.steps) and self.steps_at_once == self.steps
        self.most_steps = _rounded_up(self.steps) if self.is_open else int(self.steps)
        self.projections_of_direction = -(-self.steps_at_once * step_bytes // 256) * 64
        self.second_recurrences = 0
        self.product = gemm_product(self._gemm(self._state_tensor(), desc.recurrence_tensor))
        product_gates = 2 if self.is_product_reset else self.gates
        self.tile = step_tile(self.product, product_gates, has_unusual(desc.activation_descs), target)

    def program(self) -> Program:
        self.projections = self.builder.scratch(self.directions * self.projections_of_direction * 4)
        self._prepare_state()
        self._prepare_constants()
        self._prepare_sequence()
        input_products = [self._input_products(direction) for direction in range(self.directions)]
        state_products = self._state_products() if self.tile is None else []
        shape = self._shape()
        there = [-1] * self.directions
        for step in range(self.most_steps):
            times = [self._time(direction, step) for direction in range(self.directions)]
            for direction, time in enumerate(times):
                chunk = 0 if self.is_open else time // self.steps_at_once
                if there[direction] != chunk:
                    there[direction] = chunk
                    input_products[direction][chunk].add(
                        self.builder, "products of the input", is_independent=direction > 0
                    )
            count = applied(_is_some, self.steps - step) if step >= self._sure_steps else 1
            self._add_step(shape, self._step_time(times, step, count), state_products)
        self._add_outputs()
        return self.builder.program()

    @property
    def _sure_steps(self) -> int:
        return self.most_steps // 2 + 1 if self.is_open else self.most_steps

    def _time(self, direction: int, step: int) -> int:
        backward = direction == 1 or self.desc.direction is RecurrentNetworkDirection.BACKWARD
        time = self.steps - 1 - step if backward else step
        return applied(_at_least_0, time) if step >= self._sure_steps and backward else time

    def _step_time(self, times: Sequence[int], step: int, count: int = 1) -> StepTime:
        """What kernels are told of a step: states lie in two places in turn where other work groups read them."""
        positions = times if self.is_open else [time % self.steps_at_once for time in times]
        read, written = (0, 0) if self.tile is None else (step % 2, 1 - step % 2)
        return StepTime(times, positions, read * self.state_words, written * self.state_words, count)

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _state_tensor(self) -> TensorDesc:
        rows = self.batch * self.row
        return TensorDesc(
            self.data_type, (1, self.directions, self.batch, self.hidden), (self.directions * rows, rows, self.row, 1)
        )

    def _prepare_state(self) -> None:
        """The initial state, as rows of whole words: the hidden one, where the next one lies, cells or reset state."""
        size = self.directions * self.batch * self.words * 4
        self.state_words = -(-size // 256) * 64
        hidden_states = 1 if self.tile is None else 2
        has_second = isinstance(self.desc, Lstm) or self.is_product_reset
        self.second_state = hidden_states * self.state_words
        self.state = self.builder.scratch((hidden_states + has_second) * self.state_words * 4)
        self._add_initial("hidden_init_tensor", self._state_part(0))
        if isinstance(self.desc, Lstm):
            self._add_initial("cell_mem_init_tensor", self._state_part(self.second_state))

    def _state_part(self, first_word: int) -> Region:
        """A part of the state, by where it begins."""
        return self.state.part(4 * first_word, self.directions * self.batch * self.words * 4)

    def _add_initial(self, member: str, region: Region) -> None:
        given: TensorDesc | None = getattr(self.desc, member)
        if given is not None:
            self._copy(given, self.builder.reads[member], self._state_tensor(), region, "initial state")
            return
        words = TensorDesc(DataType.UINT32, (region.size_in_bytes // 4,))
        fill = operator_desc("FILL_VALUE_CONSTANT", OutputTensor=words, ValueDataType=DataType.UINT32, Value=0)
        self.builder.operator(fill, [], [region], "initial state")

    def _prepare_constants(self) -> None:
        """Biases, peepholes and lengths, packed one behind the other."""
        offsets, size = {}, 0
        members = [name for name in ("bias_tensor", "peephole_tensor", "sequence_lengths_tensor") if self._given(name)]
        for member in members:
            offsets[member] = size
            tensor = self._given(member)
            assert tensor is not None  # those that are given
            size += -(-tensor.element_count * tensor.data_type.size_in_bytes // 256) * 256
        self.constants = self.builder.scratch(max(size, 16))
        for member, offset in offsets.items():
            tensor = self._given(member)
            assert tensor is not None  # those that are given
            packed = TensorDesc(tensor.data_type, tensor.sizes)
            region = self.constants.part(offset, packed.size_in_bytes)
            self._copy(tensor, self.builder.reads[member], packed, region, "constants")
        self.peepholes = offsets.get("peephole_tensor", 0) // self.data_type.size_in_bytes
        self.lengths = offsets.get("sequence_lengths_tensor", 0) // 4

    def _given(self, member: str) -> TensorDesc | None:
        tensor: TensorDesc | None = getattr(self.desc, member, None)
        return tensor

    def _prepare_sequence(self) -> None:
        """Where the states of all steps go: to the output where its rows lie alike, else to a copy's source."""
        output = self.desc.output_sequence_tensor
        sizes = (self.steps, self.directions, self.batch, self.hidden)
        strides = packed_strides((*sizes[:-1], self.row))
        self.sequence_tensor = TensorDesc(self.data_type, sizes, strides)
        if output is None:
            self.sequence = self.builder.scratch(16)
        elif self.row == self.hidden and output.element_strides == strides:
            self.sequence = self.builder.writes["output_sequence_tensor"]
        else:
            self.sequence = self.builder.scratch(self.sequence_tensor.size_in_bytes + 4)

    def _copy(self, source: TensorDesc, read: Region, target: TensorDesc, written: Region, label: str) -> None:
        copy = operator_desc("ELEMENT_WISE_IDENTITY", InputTensor=source, OutputTensor=target)
        self.builder.operator(copy, [read], [written], label)

    def _part(self, tensor: TensorDesc, region: Region, axis: int, first: int, count: int) -> tuple[TensorDesc, Region]:
        """Some elements along an axis: where they lie, or a copy, as operands begin at multiples of 16 bytes."""
        sizes = (*tensor.sizes[:axis], count, *tensor.sizes[axis + 1 :])
        if first == 0 and count == tensor.sizes[axis]:
            return tensor, region
        offset = first * tensor.element_strides[axis] * self.data_type.size_in_bytes
        part = TensorDesc(self.data_type, sizes, tensor.element_strides)
        if offset % 16 == 0:
            return part, region.part(offset, min(part.size_in_bytes, region.size_in_bytes - offset))
        part = TensorDesc(self.data_type, sizes)
        offsets = [first if i == axis else 0 for i in range(4)]
        slice_ = operator_desc(
            "SLICE1",
            InputTensor=tensor,
            OutputTensor=part,
            DimensionCount=4,
            InputWindowOffsets=offsets,
            InputWindowSizes=sizes,
            InputWindowStrides=(1, 1, 1, 1),
        )
        copied = self.builder.scratch(part.size_in_bytes)
        self.builder.operator(slice_, [region], [copied], "part of an operand")
        return part, copied

    # ---- products ---------------------------------------------------------------------------------------------------

    def _gemm(self, left: TensorDesc, weights: TensorDesc) -> Gemm:
        return Gemm(
            a_tensor=left,
            b_tensor=weights,
            output_tensor=TensorDesc(self.data_type, (*left.sizes[:-1], weights.sizes[-2])),
            trans_a=MatrixTransform.NONE,
            trans_b=MatrixTransform.TRANSPOSE,
            alpha=1.0,
            beta=0.0,
            fused_activation=None,
        )

    def _sums(self, left: TensorDesc, read: Region, right: tuple[TensorDesc, Region], sums: Region) -> _Kernels:
        """Such a product as FLOAT32."""
        product = gemm_product(self._gemm(left, right[0]))
        return _Kernels(float32_sum_kernels(product, self.target), read, right[1], sums)

    def _input_products(self, direction: int) -> list[_Kernels]:
        """The products of the input with a direction's weights, for so many steps at once."""
        source, region = self.desc.input_tensor, self.builder.reads["input_tensor"]
        _, by_step, by_row, _ = source.element_strides
        if self.batch > 1 and self.steps > 1 and by_step != self.batch * by_row:
            source, region = self._packed_input()
            _, by_step, by_row, _ = source.element_strides
        weights = self._part(self.desc.weight_tensor, self.builder.reads["weight_tensor"], 1, direction, 1)
        size = self.projections_of_direction * 4
        made = []
        for first in [0] if self.is_open else range(0, self.steps, self.steps_at_once):
            count = self.steps if self.is_open else min(self.steps_at_once, self.steps - first)
            part, read = self._part(source, region, 1, first, count)
            strides = part.element_strides
            by = strides[1] if self.batch == 1 else strides[2]
            rows = TensorDesc(self.data_type, (1, 1, count * self.batch, part.sizes[3]), (0, 0, by, strides[3]))
            sums = self.projections.part(direction * size, size)
            made.append(self._sums(rows, read, weights, sums))
        return made

    def _packed_input(self) -> tuple[TensorDesc, Region]:
        """The input with its rows at equal distances."""
        if not hasattr(self, "_input_copy"):
            tensor = TensorDesc(self.data_type, self.desc.input_tensor.sizes)
            region = self.builder.scratch(tensor.size_in_bytes)
            self._copy(self.desc.input_tensor, self.builder.reads["input_tensor"], tensor, region, "packed input")
            self._input_copy = tensor, region
        return self._input_copy

    def _state_products(self) -> list[_Kernels]:
        """The products of the state: all at once, or GRU's hidden gate apart, of the reset state."""
        recurrence, region = self.desc.recurrence_tensor, self.builder.reads["recurrence_tensor"]
        state, hidden_state = self._state_tensor(), self._state_part(0)
        if not self.is_product_reset:
            self.recurrences = self.builder.scratch(self.directions * self.batch * self.gates * self.hidden * 4)
            return [self._sums(state, hidden_state, (recurrence, region), self.recurrences)]
        first = self._part(recurrence, region, 2, 0, 2 * self.hidden)
        last = self._part(recurrence, region, 2, 2 * self.hidden, self.hidden)
        sums_size = self.directions * self.batch * self.hidden * 4
        self.second_recurrences = -(-2 * sums_size // 256) * 256
        self.recurrences = self.builder.scratch(self.second_recurrences + sums_size)
        reset_state = self._state_part(self.second_state)
        return [
            self._sums(state, hidden_state, first, self.recurrences.part(0, 2 * sums_size)),
            self._sums(state, reset_state, last, self.recurrences.part(self.second_recurrences, sums_size)),
        ]

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _shape(self) -> StepShape:
        _, by_direction, by_unit, by_term = self.desc.recurrence_tensor.element_strides
        product = self.product
        return StepShape(
            operator_name=self.desc.operator_name,
            data_type=self.data_type,
            batch=self.batch,
            hidden=self.hidden,
            directions=self.directions,
            flags=self._flags(),
            clip=self._clip(),
            projections_of_direction=self.projections_of_direction,
            peepholes=self.peepholes,
            lengths=self.lengths,
            second_state=self.second_state,
            second_recurrences=self.second_recurrences // 4,
            weight_strides=(by_direction, by_unit, by_term),
            vectors=(product.left_has_vectors, product.right_along_terms, product.right_has_vectors),
            tile=self.tile,
        )

    def _add_step(self, shape: StepShape, time: StepTime, products: Sequence[_Kernels]) -> None:
        for before in products[:1]:
            before.add(self.builder, "products of the state", count=time.count)
        if self.is_product_reset:
            self._add_gates(shape, "gru_reset", time)
            for before in products[1:]:
                before.add(self.builder, "products of the reset state", count=time.count)
        name = "rnn" if isinstance(self.desc, Rnn) else "lstm" if isinstance(self.desc, Lstm) else "gru"
        is_linear = isinstance(self.desc, Gru) and not self.is_product_reset
        self._add_gates(shape, "gru_linear" if is_linear else name, time)

    def _add_gates(self, shape: StepShape, name: str, time: StepTime) -> None:
        """A kernel for both directions, or one for each where their activations differ."""
        activations = self.desc.activation_descs
        each = len(activations) // self.directions
        ways = [tuple(activations[number * each : (number + 1) * each]) for number in range(self.directions)]
        second = self.builder.reads["recurrence_tensor"] if self.tile is not None else self.recurrences
        reads = [self.projections, second, self.constants]
        groups = [range(self.directions)] if len(set(ways)) == 1 else [range(n, n + 1) for n in range(self.directions)]
        for directions in groups:
            kernel = step_kernel(shape, name, time, directions, ways[directions.start])
            is_independent = directions.start > 0
            self.builder.launch(
                kernel, reads, [self.state, self.sequence], label="gates", is_independent=is_independent
            )

    def _flags(self) -> int:
        desc = self.desc
        has = {
            _HAS_BIAS: desc.bias_tensor is not None,
            _HAS_LENGTHS: desc.sequence_lengths_tensor is not None,
            _HAS_SEQUENCE: desc.output_sequence_tensor is not None,
        }
        if isinstance(desc, Lstm):
            has[_HAS_PEEPHOLES] = desc.peephole_tensor is not None
            has[_HAS_CLIP] = desc.use_clip_threshold
            has[_IS_COUPLED] = desc.couple_input_forget
        return sum(flag for flag, is_there in has.items() if is_there)

    def _clip(self) -> int:
        return converted_bits(self.desc.clip_threshold, self.data_type) if isinstance(self.desc, Lstm) else 0

    def _add_outputs(self) -> None:
        state = self._state_tensor()
        last = self._step_time((), self.steps).read_state  # where the step behind the last one would find it
        parts = {"output_single_tensor": last, "output_cell_single_tensor": self.second_state}
        for member, first_word in parts.items():
            output = self._given(member)
            if output is not None:
                self._copy(state, self._state_part(first_word), output, self.builder.writes[member], "last state")
        output = self.desc.output_sequence_tensor
        if output is not None and self.sequence != self.builder.writes["output_sequence_tensor"]:
            written = self.builder.writes["output_sequence_tensor"]
            self._copy(self.sequence_tensor, self.sequence, output, written, "states of all steps")
