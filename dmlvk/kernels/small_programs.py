"""The programs that are no operator's own: results from a table, FLOAT16 from FLOAT32, bytes from here to there."""

from __future__ import annotations

from dmlvk.datatypes import DataType
from dmlvk.kernels.elementwise.elementwise import lower as lower_elementwise
from dmlvk.kernels.elementwise.elementwise import lower_conversion, lower_lookup
from dmlvk.kernels.lookup import TABLE_SIZE_IN_BYTES
from dmlvk.kernels.program import BindingKind, KernelStep, Program, Region, operand_regions
from dmlvk.kernels.target import Target
from dmlvk.operators import ElementWiseIdentity, OperatorDesc
from dmlvk.tensors import TensorDesc


def lookup_program(desc: OperatorDesc, target: Target) -> Program:
    """A checked operator whose results are read from the table that its constants are."""
    reads, writes = operand_regions(desc)
    table = Region(BindingKind.CONSTANTS, 0, 0, TABLE_SIZE_IN_BYTES)
    label = f"{desc.operator_name} by table"
    return Program((KernelStep(label, lower_lookup(desc, target), (*reads, table), tuple(writes)),))


def conversion_step(elements: int, read: Region, write: Region) -> KernelStep:
    """Converts so many FLOAT32 to FLOAT16."""
    return KernelStep("FLOAT16 from FLOAT32", lower_conversion(elements), (read,), (write,))


def copy_step(label: str, source: Region, destination: Region, target: Target) -> KernelStep:
    """Copies bytes as words; the regions' sizes are equal multiples of 4."""
    words = TensorDesc(DataType.UINT32, (destination.size_in_bytes // 4,))
    desc = ElementWiseIdentity(input_tensor=words, output_tensor=words)
    return KernelStep(label, lower_elementwise(desc, target), (source,), (destination,))
