"""Which operators are better looked up than computed, and what their tables hold.

A function of one 16-bit number has 65,536 results. Its kernel computes them once, on the device that uses them; after
that each element costs one read through the caches instead of a hundred instructions. The bits are the kernel's own.
"""

from __future__ import annotations

import math

from dmlvk.datatypes import DataType
from dmlvk.kernels.target import Target
from dmlvk.operators import OperatorDesc
from dmlvk.tensors import TensorDesc

TABLE_ENTRIES = 2**16  # Results of a table, one for each pattern of 16 bits, in their order

TABLE_SIZE_IN_BYTES = 2 * TABLE_ENTRIES

FEWEST_ELEMENTS = 2**20  # Elements of an output from which on a table is worth the launch that fills it

FASTER_COMPUTED = frozenset({"ACTIVATION_LEAKY_RELU", "ELEMENT_WISE_EXP"})
"""Operators whose FLOAT16 functions take less time than a read, but on naive drivers."""


def table_desc(desc: OperatorDesc, target: Target) -> OperatorDesc | None:
    """The description that computes an operator's table from all patterns of 16 bits; ``None`` where none is used.

    Args:
        target: the device; a naive driver computes so slowly that it looks up whatever it can.
    """
    if desc.declaration.pattern != "elementwise":  # a result may depend on more than one element
        return None
    tensors = {field.attribute: tensor for field, tensor in (*desc.inputs, *desc.outputs) if tensor is not None}
    if len(tensors) != 2 or any(tensor.data_type is not DataType.FLOAT16 for tensor in tensors.values()):
        return None
    output = tensors[next(reversed(tensors))]
    if math.prod(output.sizes) < FEWEST_ELEMENTS or desc.declaration.accuracy.promise == "exact":
        return None  # what is exact is a few instructions, and so is as fast as memory
    is_fast = desc.operator_name in FASTER_COMPUTED and getattr(desc, "scale_bias", None) is None
    if is_fast and not target.is_naive:
        return None
    patterns = TensorDesc(DataType.FLOAT16, (TABLE_ENTRIES,))
    members = {field.attribute: getattr(desc, field.attribute) for field in desc.fields}
    return type(desc)(**{**members, **dict.fromkeys(tensors, patterns)})
