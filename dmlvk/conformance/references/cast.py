"""What CAST gives: integers by Python's own, floats by NumPy's conversions, which round once, to nearest even."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Expected
from dmlvk.conformance.references.registry import reference

Array = npt.NDArray[Any]

_CANONICAL_NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}


@reference("CAST")
def cast(desc: dml.Cast, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """Each way of conversion by a function of its own."""
    source = inputs["InputTensor"]
    wanted = desc.output_tensor.data_type.numpy_dtype
    if source.dtype == wanted:
        return {"OutputTensor": source.copy()}
    if wanted.kind == "f":
        result = _to_float(source, wanted)
    elif source.dtype.kind == "f":
        result = _truncated(source, wanted)
    else:
        result = np.array([int(value) % 2 ** (8 * wanted.itemsize) for value in source.flat], np.uint64)
        result = result.astype(f"u{wanted.itemsize}").view(wanted)
    return {"OutputTensor": result.reshape(source.shape)}


def _to_float(source: Array, wanted: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result = source.astype(wanted)
    if source.dtype.kind == "f":
        bits = result.view(f"u{wanted.itemsize}")
        bits[np.isnan(source)] = _CANONICAL_NAN[wanted.itemsize]
    return result


def _truncated(source: Array, wanted: np.dtype[Any]) -> Array:
    limits = np.iinfo(wanted)

    def converted(value: float) -> int:
        if np.isnan(value):
            return 0
        if np.isinf(value):
            return int(limits.max if value > 0 else limits.min)
        return int(min(max(int(value), limits.min), limits.max))

    with np.errstate(invalid="ignore"):
        values = source.astype(np.float64).ravel().tolist()
    return np.array([converted(value) for value in values], wanted)
