"""Runs operators on whole buffers, bytes in and bytes out, and has the results compared with the references."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.cases import Batch, ValueCase
from dmlvk.conformance.comparison import Comparison, as_bits, compare, difference, fault_text
from dmlvk.conformance.references import expected_output, has_true_values
from dmlvk.operators import OperatorDesc
from dmlvk.tensors import packed_strides

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_SCRATCH_BYTE = 0xA7  # What scratch memory is filled with before an operator runs

_KEPT_BUFFERS = 16


@dataclasses.dataclass(frozen=True)
class TensorPlacement:
    buffer: int  # number of the buffer; two tensors with the same number share it
    offset: int = 0  # where the tensor's binding begins, in bytes
    size_in_bytes: int | None = None  # of the binding; ``None``: to the buffer's end


class Workbench:
    """A device with buffers that are kept from one run to the next: equal buffers mean equal pipelines."""

    def __init__(self, device: dml.Device) -> None:
        self.device = device
        self._buffers: dict[tuple[int, int], dml.Buffer] = {}

    def run(self, desc: OperatorDesc, contents: Sequence[Bytes], placements: Sequence[TensorPlacement]) -> list[Bytes]:
        """Runs an operator once, through a binding table.

        Args:
            contents: what each buffer holds before.
            placements: where each tensor that is given lies, inputs first, in the order of the members.

        Returns:
            What each buffer holds afterwards.
        """
        compiled = self.device.compile_operator(self.device.create_operator(desc))
        buffers = [self._buffer(number, before.size) for number, before in enumerate(contents)]
        for buffer, before in zip(buffers, contents, strict=True):
            buffer.upload(before)
        given = iter([dml.BufferBinding(buffers[p.buffer], p.offset, p.size_in_bytes) for p in placements])
        table = self.device.create_binding_table(compiled)
        table.bind_inputs([None if tensor is None else next(given) for _, tensor in desc.inputs])
        table.bind_outputs([None if tensor is None else next(given) for _, tensor in desc.outputs])
        scratch_size = table.dispatchable.binding_properties.temporary_resource_size
        if scratch_size:
            # What it holds must not matter, and so it is nothing that a kernel would begin with.
            scratch = self._buffer(-1, scratch_size)
            scratch.upload(np.full(scratch_size, _SCRATCH_BYTE, np.uint8))
            table.bind_temporary_resource(dml.BufferBinding(scratch, 0, scratch_size))
        recorder = self.device.create_command_recorder()
        recorder.record_dispatch(compiled, table)
        recorder.execute()
        return [buffer.download() for buffer in buffers]

    def _buffer(self, number: int, size_in_bytes: int) -> dml.Buffer:
        key = (number, size_in_bytes)
        buffer = self._buffers.pop(key, None) or self.device.create_buffer(size_in_bytes)
        self._buffers[key] = buffer
        while len(self._buffers) > _KEPT_BUFFERS:
            oldest = next(iter(self._buffers))
            self._buffers.pop(oldest).close()
        return buffer

    def close(self) -> None:
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()


def element_view(contents: Bytes, data_type: dml.DataType, sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """A tensor's elements in its bytes: element [i, j …] lies at index i * strides[0] + j * strides[1] + …

    Those of 4-bit types lie in a byte each, as :func:`dmlvk.arrays.tensor_bytes.unpacked` gives them:
    their bits are the low ones.
    """
    if data_type.size_in_bits == 4:
        return np.lib.stride_tricks.as_strided(contents, tuple(sizes), tuple(strides))
    elements = contents[: contents.size // data_type.size_in_bytes * data_type.size_in_bytes]
    return np.lib.stride_tricks.as_strided(
        elements.view(data_type.numpy_dtype), tuple(sizes), tuple(s * data_type.size_in_bytes for s in strides)
    )


LAYOUTS = ("contiguous", "rows", "tiled", "strided", "apart")
"""How value tests lay out tensors, so that every access order is taken.

Packed; rows of whole vectors with gaps; the first input transposed; odd rows with gaps and the second input transposed;
and output elements with gaps.
"""


def layout_of(
    case: ValueCase, layout: str, count: int, sizes: tuple[int, ...] | None = None
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Sizes of at least ``count`` elements, or those that are given, and the strides of each tensor, inputs first."""
    tensors = len(case.data_types)
    if sizes is not None:
        return sizes, [*[_strides_of_input(layout, sizes)] * (tensors - 1), _strides_of_output(layout, sizes)]
    if layout == "contiguous":
        return (count,), [(1,)] * tensors
    row = 240 if layout == "rows" else 251
    rows = -(-count // row)
    if layout == "rows":
        inputs = [(256, 1), (row, 1), (272, 1)]
    elif layout == "tiled":
        inputs = [(1, max(-(-rows // 4) * 4, 64)), (row, 1), (row + 2, 1)]
        rows = max(rows, 64)  # enough for a tile
    else:
        inputs = [(row + 3, 1), (1, rows), (row, 1)]
    output = {"rows": (304, 1), "tiled": (256, 1), "strided": (row + 1, 1), "apart": (2 * row + 1, 2)}[layout]
    return (rows, row), [*(inputs[i % len(inputs)] for i in range(tensors - 1)), output]


def _strides_of_input(layout: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Packed; rows at multiples of four elements; or the axes in reverse order, with a gap after the innermost one."""
    if layout == "contiguous":
        return packed_strides(sizes)
    if layout == "rows":
        return packed_strides((*sizes[:-1], -(-sizes[-1] // 4) * 4))
    return tuple(reversed(packed_strides((*reversed(sizes[1:]), sizes[0] + 1))))


def _strides_of_output(layout: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Packed; rows at multiples of four elements; with gaps of an element after rows, or also between elements."""
    if layout == "contiguous":
        return packed_strides(sizes)
    if layout == "rows":
        return packed_strides((*sizes[:-1], -(-sizes[-1] // 4) * 4))
    step = 2 if layout == "apart" else 1
    return tuple(step * stride for stride in packed_strides((*sizes[:-1], sizes[-1] + 1)))


def describe(
    case: ValueCase, sizes: Sequence[int], strides: Sequence[Sequence[int]], attributes: Mapping[str, Any]
) -> OperatorDesc:
    """The description of a case with these sizes, strides (inputs first) and attributes."""
    fields = [*case.tensors("input"), *case.tensors("output")]
    tensors = {
        field.attribute: dml.TensorDesc(data_type, sizes, tensor_strides)
        for (field, data_type), tensor_strides in zip(fields, strides, strict=True)
    }
    return case.desc_class(**tensors, **attributes)


@dataclasses.dataclass(frozen=True)
class PreparedBatch:
    """A batch laid out in buffers."""

    desc: OperatorDesc  # the operator's description
    inputs: list[Array]  # the logical input arrays, shape = sizes
    # what the buffers hold before, inputs first; the output's is filled with bytes that stand out
    contents: list[Bytes]
    output_strides: tuple[int, ...]  # in elements


def prepare(case: ValueCase, batch: Batch, layout: str) -> PreparedBatch:
    """Lays out a batch's arrays, repeated to fill the last row."""
    sizes, strides = layout_of(case, layout, batch.size, batch.sizes)
    desc = describe(case, sizes, strides, batch.attributes)
    tensors = [tensor for _, tensor in desc.inputs + desc.outputs if tensor is not None]
    contents = [np.full(tensor.size_in_bytes, 0xCD, np.uint8) for tensor in tensors]
    inputs = []
    for values, tensor, buffer, tensor_strides in zip(batch.inputs, tensors, contents, strides, strict=False):
        logical = np.resize(values, sizes)
        element_view(buffer, tensor.data_type, sizes, tensor_strides)[...] = logical
        inputs.append(logical)
    return PreparedBatch(desc, inputs, contents, strides[-1])


def run_prepared(bench: Workbench, prepared: PreparedBatch) -> Array:
    placements = [TensorPlacement(number) for number in range(len(prepared.contents))]
    after = bench.run(prepared.desc, prepared.contents, placements)[-1]
    output = next(tensor for _, tensor in prepared.desc.outputs if tensor is not None)
    return np.ascontiguousarray(element_view(after, output.data_type, output.sizes, prepared.output_strides))


class Judge:
    """Compares the results of one device after the other with what they must be.

    Every result must keep the operator's promise; and all devices must give the bits that the first one gives.

    Attributes:
        expected: what the results must be, bit by bit: the reference's output or, where that gives true values, the
            first device's results once there are any (before, the true values).
    """

    def __init__(self, desc: OperatorDesc, inputs: Sequence[Array]) -> None:
        self.expected = self._reference = expected_output(desc, list(inputs))
        self._desc = desc
        self._inputs = inputs

    def comparison(self, got: Array) -> Comparison:
        """How a device's results compare with the definition."""
        return compare(self._desc, got, self._reference)

    def fault(self, where: str, got: Array) -> str | None:
        """``None`` when a device's results are right; otherwise what is wrong, beginning with ``where``."""
        fault = fault_text(where, self.comparison(got), got, self._reference, self._inputs)
        if fault is None and self.expected is not self._reference:
            fault = difference(where, got, self.expected, self._inputs)
        if has_true_values(self._desc) and self.expected is self._reference:
            self.expected = got
        return fault


def check_batch(benches: Sequence[Workbench], case: ValueCase, layout: str, batch: Batch) -> Array:
    """Runs a batch on every device, compares with the reference, and returns what the results must be.

    Raises:
        AssertionError: when a result is wrong (the message says where), or an input is constant.
    """
    label = label_of(case, layout, batch)
    for values in batch.inputs:
        bits = as_bits(values)
        if (bits == bits[0]).all():
            raise AssertionError(f"{label}: an input is constant")
    prepared = prepare(case, batch, layout)
    judge = Judge(prepared.desc, prepared.inputs)
    for bench in benches:
        fault = judge.fault(f"{bench.device.info.name}: {label}", run_prepared(bench, prepared))
        if fault is not None:
            raise AssertionError(fault)
    return judge.expected


def label_of(case: ValueCase, layout: str, batch: Batch) -> str:
    """Operator, data types, attributes, layout and kind of inputs, for messages."""
    types = ", ".join(f"{member} {data_type.name}" for member, data_type in case.data_types)
    attributes = "".join(f", {attribute} {value!r}" for attribute, value in batch.attributes.items())
    return f"{case.desc_class.operator_name}, {types}{attributes}, {layout}, {batch.name}"
