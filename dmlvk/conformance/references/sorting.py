"""What operators must give that put rows in order: Python's sort, which is stable, of one row after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references.indexed import as_bits
from dmlvk.conformance.references.registry import reference
from dmlvk.operators.members import AxisDirection
from dmlvk.operators.sorting import TopK, TopK1

Array = npt.NDArray[Any]


@reference("TOP_K1", "TOP_K")
def top_k(desc: TopK | TopK1, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """The places in order, and the elements that stand there."""
    source = inputs["InputTensor"]
    sign = 1 if isinstance(desc, TopK1) and desc.axis_direction is AxisDirection.INCREASING else -1
    rows = np.moveaxis(source, desc.axis, -1)
    indices = np.empty((*rows.shape[:-1], desc.k), desc.output_index_tensor.data_type.numpy_dtype)
    for at in np.ndindex(rows.shape[:-1]):
        row = rows[at].tolist()  # Python's own numbers, without rounding

        def order(index: int, row: list[Any] = row) -> tuple[bool, Any]:
            is_nan = row[index] != row[index]
            return is_nan, 0 if is_nan else sign * row[index]

        indices[at] = sorted(range(len(row)), key=order)[: desc.k]
    values = np.take_along_axis(np.moveaxis(as_bits(source), desc.axis, -1), indices.astype(np.int64), -1)
    return {
        "OutputValueTensor": np.ascontiguousarray(np.moveaxis(values, -1, desc.axis)).view(source.dtype),
        "OutputIndexTensor": np.ascontiguousarray(np.moveaxis(indices, -1, desc.axis)),
    }
