"""Lowers RNN, LSTM and GRU: products of the input for many steps at once, then each step by a product and a kernel.

Weights, states and products stay on the device; all steps share their kernels, which are told the time by parameters.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.elementwise import converted_bits
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.matrix import float32_sum_kernels, gemm_product
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import FusedActivation, Gemm, Gru, Lstm, MatrixTransform, OperatorDesc, Rnn, operator_desc
from dmlvk.operators.recurrent import RecurrentNetworkDirection, direction_count
from dmlvk.operators.type_groups import FLOATS
from dmlvk.tensors import TensorDesc, packed_strides

_ACTIVATIONS = (
    "SIGMOID",
    "TANH",
    "RELU",
    "IDENTITY",
    "CELU",
    "ELU",
    "GELU",
    "HARD_SIGMOID",
    "LEAKY_RELU",
    "LINEAR",
    "PARAMETRIC_SOFTPLUS",
    "SCALED_ELU",
    "SCALED_TANH",
    "SHRINK",
    "SOFTPLUS",
    "SOFTSIGN",
    "THRESHOLDED_RELU",
)
"""As ``shaders/include/any_activation.glsl`` counts them."""

_USUAL = 4
"""The first so many have kernels of their own."""

_HAS_BIAS, _HAS_PEEPHOLES, _HAS_LENGTHS, _HAS_CLIP, _IS_COUPLED, _HAS_SEQUENCE = (1 << bit for bit in range(6))
"""As in ``shaders/patterns/recurrent.glsl``."""

_MOST_PROJECTIONS = 2**28
"""Bytes of products of the input that are kept at a time."""

_SHADERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "rnn": ("rnn", {}),
    "lstm": ("lstm", {}),
    "gru": ("gru", {"LINEAR_BEFORE_RESET": "0"}),
    "gru_linear": ("gru", {"LINEAR_BEFORE_RESET": "1"}),
    "gru_reset": ("gru_reset", {}),
}
"""By variant: the source, and definitions of its own."""


Recurrent = Rnn | Lstm | Gru


def variants() -> Iterator[ShaderVariant]:
    """All shader variants that these operators have."""
    for (name, (source, own)), data_type, any_activation in itertools.product(_SHADERS.items(), FLOATS, (0, 1)):
        defines = {
            **own,
            "OPERAND": data_type.name.lower(),
            "OPERAND_BITS": str(data_type.size_in_bits),
            "ANY_ACTIVATION": str(any_activation),
        }
        shown = _variant_name(name, data_type, bool(any_activation))
        yield ShaderVariant(shown, f"recurrent/{source}.comp", tuple(sorted(defines.items())))


def _variant_name(name: str, data_type: DataType, any_activation: bool) -> str:
    return f"recurrent.{name}.{data_type.name.lower()}.{'any' if any_activation else 'usual'}"


def lower(desc: OperatorDesc, target: Target) -> Program:
    """The program of an operator.

    Raises:
        DeviceLimitError: when there is more work than the device can address.
    """
    assert isinstance(desc, Recurrent)
    return _Network(desc, target).program()


@dataclasses.dataclass(frozen=True)
class _Kernels:
    """Launches that are the same for every step, with what they read and write."""

    kernels: Sequence[PlainKernel]
    left: Region
    right: Region
    sums: Region

    def add(self, builder: ProgramBuilder, label: str, *, is_independent: bool = False) -> None:
        for number, kernel in enumerate(self.kernels):
            free = is_independent and number == 0
            builder.launch(kernel, [self.left, self.right, self.left], [self.sums], label=label, is_independent=free)


class _Network:
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
        self.projections_of_direction = -(-self.steps_at_once * step_bytes // 256) * 64

    def program(self) -> Program:
        """All steps, and the outputs."""
        self.projections = self.builder.scratch(self.directions * self.projections_of_direction * 4)
        self._prepare_state()
        self._prepare_constants()
        self._prepare_sequence()
        input_products = [self._input_products(direction) for direction in range(self.directions)]
        state_products = self._state_products()
        there = [-1] * self.directions
        for step in range(self.steps):
            times = [self._time(direction, step) for direction in range(self.directions)]
            for direction, time in enumerate(times):
                chunk = time // self.steps_at_once
                if there[direction] != chunk:
                    there[direction] = chunk
                    input_products[direction][chunk].add(
                        self.builder, "products of the input", is_independent=direction > 0
                    )
            self._add_step(times, state_products)
        self._add_outputs()
        return self.builder.program()

    def _time(self, direction: int, step: int) -> int:
        backward = direction == 1 or self.desc.direction is RecurrentNetworkDirection.BACKWARD
        return self.steps - 1 - step if backward else step

    # ---- memory -----------------------------------------------------------------------------------------------------

    def _state_tensor(self) -> TensorDesc:
        """A part of the state."""
        rows = self.batch * self.row
        return TensorDesc(
            self.data_type, (1, self.directions, self.batch, self.hidden), (self.directions * rows, rows, self.row, 1)
        )

    def _prepare_state(self) -> None:
        """The initial state, as rows of whole words: the hidden one, then LSTM's cells or GRU's reset state."""
        size = self.directions * self.batch * self.words * 4
        padded = -(-size // 256) * 256
        has_second = isinstance(self.desc, Lstm) or self.is_product_reset
        self.state = self.builder.scratch(padded + size if has_second else size)
        self.second_state = padded
        self._add_initial("hidden_init_tensor", self.state.part(0, size))
        if isinstance(self.desc, Lstm):
            self._add_initial("cell_mem_init_tensor", self.state.part(padded, size))

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

    def _sums(self, left: TensorDesc, read: Region, right: tuple[TensorDesc, Region], sums: Region) -> _Kernels:
        """A product with transposed weights, as FLOAT32."""
        weights, weights_region = right
        sizes = (*left.sizes[:-1], weights.sizes[-2])
        gemm = Gemm(
            a_tensor=left,
            b_tensor=weights,
            output_tensor=TensorDesc(self.data_type, sizes),
            trans_a=MatrixTransform.NONE,
            trans_b=MatrixTransform.TRANSPOSE,
            alpha=1.0,
            beta=0.0,
            fused_activation=None,
        )
        return _Kernels(float32_sum_kernels(gemm_product(gemm), self.target), read, weights_region, sums)

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
        for first in range(0, self.steps, self.steps_at_once):
            count = min(self.steps_at_once, self.steps - first)
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
        state = self._state_tensor()
        size = self.directions * self.batch * self.words * 4
        hidden_state = self.state.part(0, size)
        if not self.is_product_reset:
            self.recurrences = self.builder.scratch(self.directions * self.batch * self.gates * self.hidden * 4)
            return [self._sums(state, hidden_state, (recurrence, region), self.recurrences)]
        first = self._part(recurrence, region, 2, 0, 2 * self.hidden)
        last = self._part(recurrence, region, 2, 2 * self.hidden, self.hidden)
        sums_size = self.directions * self.batch * self.hidden * 4
        self.second_recurrences = -(-2 * sums_size // 256) * 256
        self.recurrences = self.builder.scratch(self.second_recurrences + sums_size)
        reset_state = self.state.part(self.second_state, size)
        return [
            self._sums(state, hidden_state, first, self.recurrences.part(0, 2 * sums_size)),
            self._sums(state, reset_state, last, self.recurrences.part(self.second_recurrences, sums_size)),
        ]

    # ---- steps ------------------------------------------------------------------------------------------------------

    def _add_step(self, times: Sequence[int], products: Sequence[_Kernels]) -> None:
        products[0].add(self.builder, "products of the state")
        if self.is_product_reset:
            self._add_gates("gru_reset", times)
            products[1].add(self.builder, "products of the reset state")
        name = "rnn" if isinstance(self.desc, Rnn) else "lstm" if isinstance(self.desc, Lstm) else "gru"
        is_linear = isinstance(self.desc, Gru) and not self.is_product_reset
        self._add_gates("gru_linear" if is_linear else name, times)

    def _add_gates(self, name: str, times: Sequence[int]) -> None:
        """A kernel for both directions, or one for each where their activations differ."""
        activations = self.desc.activation_descs
        each = len(activations) // self.directions
        ways = [tuple(activations[number * each : (number + 1) * each]) for number in range(self.directions)]
        if len(set(ways)) == 1:
            self._add_launch(name, times, 0, self.directions, ways[0])
            return
        for direction, way in enumerate(ways):
            self._add_launch(name, times, direction, 1, way)

    def _add_launch(
        self, name: str, times: Sequence[int], first: int, count: int, activations: Sequence[FusedActivation]
    ) -> None:
        work_items = count * self.batch * self.words
        kinds = [_ACTIVATIONS.index(fused.operator_name.removeprefix("ACTIVATION_")) for fused in activations]
        attributes = [word for fused in activations for word in self._attribute_words(fused)]
        both = (*times, 0)[:2]
        parameters = (
            work_items,
            self._flags(),
            self.batch,
            self.hidden,
            first,
            self.directions,
            *both,
            *(time % self.steps_at_once for time in both),
            self.projections_of_direction,
            self.peepholes,
            self.lengths,
            self.second_state // 4,
            self.second_recurrences // 4 if self.is_product_reset else 0,
            sum(kind << (8 * number) for number, kind in enumerate(kinds)),
            *(*attributes, 0, 0, 0, 0, 0, 0)[:6],
            self._clip(),
        )
        work_groups = launch_size(self.desc.operator_name, work_items)
        variant = _variant_name(name, self.data_type, any(kind >= _USUAL for kind in kinds))
        kernel = PlainKernel(variant, work_groups, (int(work_groups[1] > 1), 1), parameters)
        reads = [self.projections, self.recurrences, self.constants]
        self.builder.launch(kernel, reads, [self.state, self.sequence], label="gates", is_independent=first > 0)

    def _attribute_words(self, fused: FusedActivation) -> tuple[int, int]:
        words = [
            converted_bits(value, self.data_type) if field.converted_to else float32_bits(value)
            for field, value in fused.attributes
        ]
        first, second = (*words, 0, 0)[:2]
        return first, second

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
        size = self.directions * self.batch * self.words * 4
        state = self._state_tensor()
        parts = {"output_single_tensor": 0, "output_cell_single_tensor": self.second_state}
        for member, offset in parts.items():
            output = self._given(member)
            if output is not None:
                self._copy(state, self.state.part(offset, size), output, self.builder.writes[member], "last state")
        output = self.desc.output_sequence_tensor
        if output is not None and self.sequence != self.builder.writes["output_sequence_tensor"]:
            written = self.builder.writes["output_sequence_tensor"]
            self._copy(self.sequence_tensor, self.sequence, output, written, "states of all steps")
