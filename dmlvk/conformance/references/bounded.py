"""What the outputs of operators must be that are tried by samples: exactly, or within a bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dmlvk.conformance import facets
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.operators import OperatorDesc

Array: TypeAlias = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Bounded:
    """True values, and how far from them results may be."""

    values: npt.NDArray[np.floating[Any]]  # in float64, or better
    # the largest error that is promised of each result, as an absolute number: some ULP of the result, a fraction of
    # the sum of the magnitudes that were added, or both. Infinities and NaN must be met as they are
    bound: npt.NDArray[np.float64]


Expected: TypeAlias = "Array | Bounded"
"""An array of an output's data type whose every bit is settled, or true values with a bound."""


def fault(where: str, got: Array, expected: Expected) -> str | None:
    """``None`` when results are what they must be; else how many are not, and the first three of them.

    Args:
        where: what the text begins with.
    """
    true: Array = expected.values if isinstance(expected, Bounded) else expected
    wrong = wrong_elements(got, expected)
    if not wrong.any():
        return None
    positions = np.argwhere(wrong)
    lines = [f"{where}: {len(positions)} of {got.size} elements are wrong"]
    for coordinates in positions[:3]:
        index = tuple(int(i) for i in coordinates)
        allowed = f" within {expected.bound[index]!r}" if isinstance(expected, Bounded) else ""
        lines.append(f"  at {list(index)}: got {got[index]!r}, expected {true[index]!r}{allowed}")
    return "\n".join(lines)


def wrong_elements(got: Array, expected: Expected) -> npt.NDArray[np.bool_]:
    """Which results are not what they must be.

    Raises:
        ValueError: when data types or shapes differ.
    """
    if isinstance(expected, Bounded):
        return _beyond(got, expected)
    if got.dtype != expected.dtype or got.shape != expected.shape:
        raise ValueError(f"got {got.dtype} {got.shape}, expected {expected.dtype} {expected.shape}")
    bits = np.dtype(f"u{got.dtype.itemsize}")
    # An array of no axes has one place, too.
    wrong: npt.NDArray[np.bool_] = np.atleast_1d(np.ascontiguousarray(got).view(bits)) != np.atleast_1d(
        np.ascontiguousarray(expected).view(bits)
    )
    return wrong.reshape(got.shape)


def _beyond(got: Array, expected: Bounded) -> npt.NDArray[np.bool_]:
    values, bound = np.broadcast_arrays(expected.values, expected.bound)
    if got.shape != values.shape:
        raise ValueError(f"got {got.shape}, expected {values.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        number = got.astype(np.float64)
        wrong = ~(np.abs(number - values) <= bound)
        # Beyond the largest number infinity is right, where the bound reaches so far.
        largest = float((np.finfo if got.dtype.kind == "f" else np.iinfo)(got.dtype).max)
        overflowed = np.isinf(number) & (np.sign(number) == np.sign(values)) & (np.abs(values) + bound >= largest)
    same = (np.isnan(number) & np.isnan(values)) | (number == values) | overflowed
    result: npt.NDArray[np.bool_] = wrong & ~same
    return result


def expected_outputs(desc: OperatorDesc, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """What an operator's outputs must be, by DirectML's names.

    Raises:
        FacetError: when the operator has no reference, or it fails, or gives other outputs, types or shapes.
    """
    name, compute = desc.operator_name, REFERENCES.get(desc.operator_name)
    if compute is None:
        raise facets.missing(name, "reference", "dmlvk/conformance/references")
    given = compute
    expected: Mapping[str, Expected] = facets.result_of(name, "reference", lambda: given(desc, inputs))
    tensors = {field.name: tensor for field, tensor in desc.outputs if tensor is not None}
    if set(expected) != set(tensors):
        raise facets.fault(name, "reference", f"gives {sorted(expected)}; the outputs are {sorted(tensors)}")
    for member, tensor in tensors.items():
        value = expected[member]
        if isinstance(value, Bounded):
            found: tuple[object, ...] = (np.broadcast(value.values, value.bound).shape,)
            wanted: tuple[object, ...] = (tuple(tensor.sizes),)
        else:
            found = (value.dtype, value.shape)
            wanted = (np.dtype(tensor.data_type.numpy_dtype), tuple(tensor.sizes))
        if found != wanted:
            words = " of shape ".join(map(str, found)), " of shape ".join(map(str, wanted))
            raise facets.fault(name, "reference", f"gives {words[0]} as {member}; it must be {words[1]}")
    return expected
