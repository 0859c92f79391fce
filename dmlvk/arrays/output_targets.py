"""Arrays that a run writes instead of new ones: which fit, and which may lie over an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dmlvk.arrays.array import Array
from dmlvk.arrays.tensor_memory import TensorMemory
from dmlvk.errors import InvalidArgumentError
from dmlvk.kernels.program import BindingKind
from dmlvk.objects.compilation import BindPoint, CompiledOperator, CompiledSingleOperator
from dmlvk.runtime.kompute import Allocation


def checked_targets(compiled: CompiledOperator, out: object) -> dict[str, TensorMemory]:
    """The arrays that outputs are to be written to, by DirectML's names.

    Args:
        out: by the outputs' names, DirectML's or Python's.

    Raises:
        InvalidArgumentError: when one is unknown, of another device, or cannot hold its output as it is written.
    """
    if not isinstance(out, Mapping):
        raise InvalidArgumentError(f"{compiled.name}: run takes out as a mapping by member name; got {out!r}")
    known = {point.name: point for point in compiled.outputs if point.tensor is not None}
    fields = [field for field, _ in compiled.desc.outputs] if isinstance(compiled, CompiledSingleOperator) else []
    names = {field.attribute: field.name for field in fields}
    targets: dict[str, TensorMemory] = {}
    for member, array in out.items():
        name = names.get(member, member) if isinstance(member, str) else member
        if name not in known or name in targets:
            raise InvalidArgumentError(
                f"{compiled.name}: out: {'is given twice' if name in targets else 'there is no output'} {member!r}; "
                f"it has {list(known)}"
            )
        if isinstance(array, Array):
            array = array.memory()
        _check_target(compiled, known[name], array)
        array.storage.settle()
        targets[name] = array
    return targets


def _check_target(compiled: CompiledOperator, point: BindPoint, array: Any) -> None:
    where, tensor = f"{compiled.name}: out: {point.name}", point.tensor
    assert tensor is not None  # absent outputs have no names
    if not isinstance(array, TensorMemory):
        raise InvalidArgumentError(f"{where}: must be a dmlvk.Array, as Device.empty makes one; got {array!r}")
    if array.device.engine is not compiled.device.engine:
        raise InvalidArgumentError(f"{where}: the array belongs to another device")
    if array.data_type is not tensor.data_type or array.shape != tuple(tensor.sizes):
        raise InvalidArgumentError(
            f"{where}: must be {tensor.data_type.name} {list(tensor.sizes)}; "
            f"got {array.data_type.name} {list(array.shape)}"
        )
    if not array.fits(tensor):
        raise InvalidArgumentError(
            f"{where}: is written with Strides {list(tensor.element_strides)}, from a multiple of "
            f"{tensor.binding_alignment} bytes on; the array has {list(array.tensor.element_strides)}, from byte "
            f"{array.offset} of its memory on"
        )
    if not array.is_whole and not (tensor.is_packed and array.nbytes % 4 == 0):
        raise InvalidArgumentError(
            f"{where}: a part of an array must be packed and have a multiple of 4 bytes, since words are written; got "
            f"Strides {list(tensor.element_strides)} and {array.nbytes} bytes"
        )


def check_shared_memory(
    compiled: CompiledOperator,
    locations: Mapping[tuple[BindingKind, int], tuple[Allocation, int]],
    targets: Mapping[str, TensorMemory],
) -> None:
    """Checks that an output which lies over an input may do so.

    Raises:
        InvalidArgumentError: when it may not.
    """
    ranges = {
        (kind, number): (allocation, offset, offset + _size(compiled, kind, number), _name(compiled, kind, number))
        for (kind, number), (allocation, offset) in locations.items()
    }
    for (kind, number), (allocation, first, end, name) in ranges.items():
        if kind is not BindingKind.OUTPUT or name not in targets:
            continue
        for (other, index), (memory, start, stop, other_name) in ranges.items():
            if (other, index) == (kind, number) or memory is not allocation or not (first < stop and start < end):
                continue
            both = f"{compiled.name}: {other_name} and {name}"
            if other is not BindingKind.INPUT:
                raise InvalidArgumentError(f"{both} must not share memory")
            if (start, stop) != (first, end):
                raise InvalidArgumentError(
                    f"{both} overlap in part, which is never allowed (bytes {start} to {stop} and {first} to {end} of "
                    "one memory)"
                )
            refusal = compiled.in_place_refusal(index, number)
            if refusal is not None:
                raise InvalidArgumentError(f"{both} are in the same memory, {refusal}")


def _size(compiled: CompiledOperator, kind: BindingKind, number: int) -> int:
    if kind is BindingKind.INPUT:
        return compiled.inputs[number].size_in_bytes
    return compiled.outputs[number].size_in_bytes if kind is BindingKind.OUTPUT else 1


def _name(compiled: CompiledOperator, kind: BindingKind, number: int) -> str:
    if kind is BindingKind.INPUT:
        return compiled.inputs[number].name
    return compiled.outputs[number].name if kind is BindingKind.OUTPUT else f"the {kind.name.lower()} resource"
