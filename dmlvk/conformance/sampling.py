"""Runs samples on devices, in several memory layouts, and has their outputs judged."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.arrays.tensor_bytes import packed, unpacked
from dmlvk.conformance.execution import TensorPlacement, Workbench, element_view
from dmlvk.conformance.references.bounded import Expected, expected_outputs, fault
from dmlvk.conformance.samples import Sample, SampleCase
from dmlvk.datatypes import DataType
from dmlvk.operators import OperatorDesc
from dmlvk.operators.declaration import with_tensors
from dmlvk.tensors import TensorDesc, packed_strides

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

GUARD = 0xCD  # What buffers are filled with before: bytes outside of a tensor's elements must be this afterwards

LAYOUTS = ("packed", "gaps", "turned", "apart")
"""How samples are laid out: as they are; with an element between rows; axes in the opposite order in memory, with an
element between what is innermost; and every second element only, with gaps between rows too.

Strides that a sample gives itself are kept."""


def laid_out(desc: OperatorDesc, layout: str) -> OperatorDesc:
    """A description with the strides of a layout."""

    def tensor(given: TensorDesc) -> TensorDesc:
        if given.strides is not None or layout == "packed":
            return given
        return dataclasses.replace(given, strides=_strides(layout, given.sizes), total_tensor_size_in_bytes=None)

    return with_tensors(desc, tensor)


def _strides(layout: str, sizes: Sequence[int]) -> tuple[int, ...]:
    if layout == "turned":
        return tuple(reversed(packed_strides((*reversed(sizes[1:]), sizes[0] + 1))))
    rows = packed_strides((*sizes[:-1], sizes[-1] + 1))
    return rows if layout == "gaps" else tuple(2 * stride for stride in rows)


@dataclasses.dataclass(frozen=True)
class Outcome:
    outputs: Mapping[str, Array]  # by DirectML's names, packed
    damage: str | None  # what bytes outside of tensors say: ``None`` when none changed

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for name, values in self.outputs.items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(values).view(np.uint8).data)
        return digest.hexdigest()


def run_sample(bench: Workbench, desc: OperatorDesc, inputs: Mapping[str, Array]) -> Outcome:
    """Runs a description on inputs through a binding table.

    Args:
        desc: the description, with any strides.
        inputs: the logical arrays, by DirectML's names.
    """
    read = [(field, tensor) for field, tensor in desc.inputs if tensor is not None]
    written = [(field, tensor) for field, tensor in desc.outputs if tensor is not None]
    contents = [stored_input(tensor, inputs[field.name]) for field, tensor in read]
    contents += [np.full(tensor.size_in_bytes, GUARD, np.uint8) for _, tensor in written]
    downloaded = bench.run(desc, contents, [TensorPlacement(number) for number in range(len(contents))])
    tensors = [tensor for _, tensor in (*read, *written)]
    contents, after = (
        [unpacked(b) if t.data_type.size_in_bits == 4 else b for b, t in zip(buffers, tensors, strict=True)]
        for buffers in (contents, downloaded)
    )
    outputs: dict[str, Array] = {}
    damage = None
    for (field, tensor), before, buffer in zip([*read, *written], contents, after, strict=True):
        view = element_view(buffer, tensor.data_type, tensor.sizes, tensor.element_strides)
        if field.kind == "input":
            changed = int(np.count_nonzero(buffer != before))
        else:
            outputs[field.name] = _as_values(np.ascontiguousarray(view).copy(), tensor)
            view[...] = element_view(before, tensor.data_type, tensor.sizes, tensor.element_strides)
            changed = int(np.count_nonzero(buffer != before))
        if changed and damage is None:
            what = "halves of bytes" if tensor.data_type.size_in_bits == 4 else "bytes"
            damage = f"{changed} {what} of {field.name} changed that are no elements of an output"
    return Outcome(outputs, damage)


def stored_input(tensor: TensorDesc, values: Array) -> Bytes:
    """A tensor's buffer with its elements, and :data:`GUARD` between them."""
    buffer = np.full(tensor.size_in_bytes, GUARD, np.uint8)
    is_half_bytes = tensor.data_type.size_in_bits == 4
    if is_half_bytes:
        buffer = unpacked(buffer)
    element_view(buffer, tensor.data_type, tensor.sizes, tensor.element_strides)[...] = _as_stored(values, tensor)
    return packed(buffer) if is_half_bytes else buffer


def _as_stored(values: Array, tensor: TensorDesc) -> Array:
    """Values as they lie in an :func:`element_view`."""
    return values.view(np.uint8) & 15 if tensor.data_type.size_in_bits == 4 else values


def _as_values(stored: Array, tensor: TensorDesc) -> Array:
    """What lay in an :func:`element_view`, as values."""
    if tensor.data_type is not DataType.INT4:
        return stored
    values: Array = np.where(stored < 8, stored, stored.astype(np.int16) - 16).astype(np.int8)
    return values


def sample_fault(where: str, outcome: Outcome, expected: Mapping[str, Expected]) -> str | None:
    """``None`` when a device made what it must of a sample; else what is wrong, beginning with ``where``."""
    if outcome.damage is not None:
        return f"{where}: {outcome.damage}"
    if set(outcome.outputs) != set(expected):
        return f"{where}: the reference gives {sorted(expected)}, the operator {sorted(outcome.outputs)}"
    faults = (fault(f"{where}: {name}", values, expected[name]) for name, values in outcome.outputs.items())
    return next((text for text in faults if text is not None), None)


def check_case(
    benches: Sequence[Workbench],
    case: SampleCase,
    layouts_for_each: int = len(LAYOUTS),  # so many of the layouts for each sample, in turn
    first_layout: int = 0,  # the number of the layout of the first sample
    *,
    # which of the devices a sample's layout runs on
    chosen: Callable[[Sequence[Workbench]], Sequence[Workbench]] = lambda benches: benches,
) -> int:
    """Runs all samples of a case in all layouts on every device; all must give what the reference says, and equal bits.

    Returns:
        how many samples there were.

    Raises:
        AssertionError: when a result is wrong; the message says where.
    """
    count = 0
    rotation = first_layout
    for sample in case.samples():
        layouts = [LAYOUTS[(rotation + number) % len(LAYOUTS)] for number in range(layouts_for_each)]
        rotation += layouts_for_each
        count += 1
        runs = [(layout, bench) for layout in layouts for bench in chosen(benches)]
        expected = expected_outputs(sample.desc, sample.inputs) if runs else {}
        first: dict[str, str] = {}
        for layout, bench in runs:
            where = f"{bench.device.info.name}: {case.name}, {sample.name}, {layout}"
            outcome = run_sample(bench, laid_out(sample.desc, layout), sample.inputs)
            text = sample_fault(where, outcome, expected)
            if text is not None:
                raise AssertionError(text)
            first.setdefault(outcome.sha256(), where)
        if len(first) > 1:
            raise AssertionError(f"the bits differ between {' and '.join(first.values())}")
    return count


def check_sample(benches: Sequence[Workbench], sample: Sample) -> None:
    """Runs one sample as it is on every device.

    Raises:
        AssertionError: when a result is wrong.
    """
    expected = expected_outputs(sample.desc, sample.inputs)
    for bench in benches:
        text = sample_fault(
            f"{bench.device.info.name}: {sample.name}", run_sample(bench, sample.desc, sample.inputs), expected
        )
        if text is not None:
            raise AssertionError(text)
