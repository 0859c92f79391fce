"""What tests of references share: a reference's results for arrays, and texts that tell zeros and NaN apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references import expected_output
from dmlvk.operators import OPERATORS

Array = npt.NDArray[Any]


def reference(operator: str, *inputs: Array, output: dml.DataType | None = None, **attributes: Any) -> Array:
    """What an operator's reference gives for its first inputs.

    Args:
        output: its data type, if not the first input's.
    """
    tensors = [dml.TensorDesc(dml.DataType.from_name(array.dtype.name.upper()), array.shape) for array in inputs]
    fields = OPERATORS[operator].fields
    members = dict(zip((field.name for field in fields if field.kind == "input"), tensors, strict=False))
    (result,) = (field.name for field in fields if field.kind == "output")
    members[result] = dml.TensorDesc(output or tensors[0].data_type, inputs[0].shape)
    return expected_output(dml.operator_desc(operator, **members, **attributes), list(inputs))


def float32(*bits: int) -> Array:
    return np.array(bits, np.uint32).view(np.float32)


def float16(*bits: int) -> Array:
    return np.array(bits, np.uint16).view(np.float16)


def bits_of(array: Array) -> list[str]:
    return [f"{int(value):0{2 * array.dtype.itemsize}x}" for value in array.view(f"u{array.dtype.itemsize}")]


def signed(values: Iterable[Any]) -> list[str]:
    """As text, in which zeros have signs and NaN equals NaN."""
    return [repr(float(value)) for value in values]
