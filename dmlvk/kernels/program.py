"""What a dispatch does on the device: kernels in order, and which ranges of which bindings each works on."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from dmlvk.datatypes import DataType
from dmlvk.kernels.elementwise import Kernel, lower_conversion, lower_lookup
from dmlvk.kernels.lookup import TABLE_SIZE_IN_BYTES
from dmlvk.kernels.lowering import lower
from dmlvk.operators import ElementWiseIdentity, OperatorDesc
from dmlvk.tensors import TensorDesc


class Place(enum.Enum):
    """The kinds of memory that a dispatch is bound to."""

    INPUT = "input"
    OUTPUT = "output"
    TEMPORARY = "temporary"
    PERSISTENT = "persistent"
    CONSTANTS = "constants"


@dataclasses.dataclass(frozen=True)
class Region:
    """A range of bytes, before buffers are bound.

    Attributes:
        place: which kind of binding it lies in.
        index: which input or output; 0 for the others, of which there is one each.
        offset: where it begins in the bound range, in bytes; a multiple of 16.
        size_in_bytes: how long it is.
    """

    place: Place
    index: int
    offset: int
    size_in_bytes: int


@dataclasses.dataclass(frozen=True)
class Step:
    """One launch of a kernel.

    Attributes:
        label: what it computes, for people.
        kernel: the kernel.
        reads: its inputs, in the order of the kernel's operands.
        writes: its outputs, which follow them.
    """

    label: str
    kernel: Kernel
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


def operator_step(desc: OperatorDesc, reads: Sequence[Region], writes: Sequence[Region]) -> Step:
    """The launch of a checked operator; one region for each tensor that the description has."""
    return Step(desc.operator_name, lower(desc), tuple(reads), tuple(writes))


def lookup_step(desc: OperatorDesc, read: Region, write: Region) -> Step:
    """The launch of a checked operator whose results are read from the table that its constants are."""
    table = Region(Place.CONSTANTS, 0, 0, TABLE_SIZE_IN_BYTES)
    return Step(f"{desc.operator_name} by table", lower_lookup(desc), (read, table), (write,))


def conversion_step(elements: int, read: Region, write: Region) -> Step:
    """Converts so many FLOAT32 to FLOAT16."""
    return Step("FLOAT16 from FLOAT32", lower_conversion(elements), (read,), (write,))


def copy_step(label: str, source: Region, target: Region) -> Step:
    """Copies bytes as words; the regions' sizes are equal multiples of 4."""
    words = TensorDesc(DataType.UINT32, (target.size_in_bytes // 4,))
    return Step(label, lower(ElementWiseIdentity(input_tensor=words, output_tensor=words)), (source,), (target,))
