"""Results compared with what they must be: bit by bit, or by their distance from the true value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.references import has_true_values
from dmlvk.conformance.ulp import promised_ulp, ulp_errors
from dmlvk.operators import OperatorDesc

Array = npt.NDArray[Any]

_NAMED_ELEMENTS = 3  # Wrong results that a message names


@dataclasses.dataclass(frozen=True)
class Comparison:
    count: int  # results that were compared
    broken: int  # how many break the promise: their bits differ, or they are further from the true value than promised
    misrounded: int  # how many are not the number nearest to the true value; where bits are compared, those that differ
    # in units in the last place of the result's data type (integers: in ones); infinite for what is wrong altogether,
    # such as a NaN in place of a number or a zero of the wrong sign
    largest_error: float
    worst: int | None  # where the largest error occurs, counted through the array; None when every result is exact
    elements: tuple[int, ...]  # where the first few broken results are, counted likewise
    bound: float | None  # the largest error that is promised, in units in the last place; None where bits are compared


def as_bits(array: Array) -> Array:
    """The elements as unsigned integers."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def compare(desc: OperatorDesc, got: Array, expected: Array) -> Comparison:
    if has_true_values(desc):
        return compare_values(got, expected, promised_ulp(desc.accuracy, desc.output_type))
    return compare_bits(got, expected)


def compare_bits(got: Array, expected: Array) -> Comparison:
    """Compares bit by bit.

    Raises:
        ValueError: when data types or shapes differ.
    """
    if got.dtype != expected.dtype or got.shape != expected.shape:
        raise ValueError(f"got {got.dtype} {got.shape}, expected {expected.dtype} {expected.shape}")
    bits, wanted = as_bits(got).reshape(-1), as_bits(expected).reshape(-1)
    wrong = np.flatnonzero(bits != wanted)
    if wrong.size == 0:
        return Comparison(bits.size, 0, 0, 0.0, None, (), None)
    errors = _distances(got.reshape(-1)[wrong], expected.reshape(-1)[wrong])
    worst = int(np.argmax(errors))
    elements = tuple(wrong[:_NAMED_ELEMENTS].tolist())
    return Comparison(bits.size, wrong.size, wrong.size, float(errors[worst]), int(wrong[worst]), elements, None)


def compare_values(got: Array, true: Array, bound: float) -> Comparison:
    """Compares float results with true values.

    Args:
        got: float32 or float16 results.
        true: the values of the function in float64.
        bound: the largest error that is allowed, in units in the last place.
    """
    return compare_errors(ulp_errors(got, true), bound)


def compare_errors(errors: npt.NDArray[np.float64], bound: float) -> Comparison:
    """The same where the errors are known already, in units in the last place."""
    flat = errors.reshape(-1)
    largest = float(flat.max(initial=0.0))
    worst = int(np.argmax(flat)) if largest > 0 else None
    misrounded = int(np.count_nonzero(flat > 0.5)) if largest > 0.5 else 0
    broken = np.flatnonzero(flat > bound) if largest > bound else np.empty(0, np.int64)
    elements = tuple(broken[:_NAMED_ELEMENTS].tolist())
    return Comparison(flat.size, broken.size, misrounded, largest, worst, elements, bound)


def _distances(got: Array, expected: Array) -> npt.NDArray[np.float64]:
    """How many numbers of the data type lie between each wrong result and the right one."""
    if got.dtype.kind != "f":
        apart: npt.NDArray[np.float64] = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        return apart
    # Of numbers of one sign the bits count upwards; those below zero are mirrored.
    lines = []
    for array in (got, expected):
        bits = as_bits(array)
        sign = bits >> (8 * array.dtype.itemsize - 1) != 0
        magnitude = (bits & np.array(2 ** (8 * array.dtype.itemsize - 1) - 1, bits.dtype)).astype(np.float64)
        lines.append(np.where(sign, -magnitude, magnitude))
    distances: npt.NDArray[np.float64] = np.abs(lines[0] - lines[1])
    distances[np.isnan(got) | np.isnan(expected) | (distances == 0)] = math.inf
    return distances


def fault_text(where: str, comparison: Comparison, got: Array, expected: Array, inputs: Sequence[Array]) -> str | None:
    """``None`` for results that keep the promise; otherwise how many do not, and some of them with their inputs.

    Args:
        where: what the text begins with.
        expected: what they were compared with.
    """
    if comparison.broken == 0:
        return None
    if comparison.bound is None:
        lines = [f"{where}: {comparison.broken} of {comparison.count} elements differ"]
    else:
        unit = f"{comparison.broken} of {comparison.count} elements are more than {comparison.bound} ULP off"
        lines = [f"{where}: {unit}; the worst is {comparison.largest_error:.4f} ULP off"]
    elements = comparison.elements
    if comparison.bound is not None and comparison.worst is not None:
        elements = tuple(dict.fromkeys((comparison.worst, *elements)))[:_NAMED_ELEMENTS]
    for element in elements:
        index = tuple(int(i) for i in np.unravel_index(element, got.shape))
        operands = ", ".join(hexadecimal(values[index]) for values in inputs)
        if comparison.bound is None:
            wanted = f"expected {hexadecimal(expected[index])}"
        else:
            wanted = f"true value {float(expected[index])!r}"
        lines.append(f"  at {list(index)}: inputs {operands}, got {hexadecimal(got[index])}, {wanted}")
    return "\n".join(lines)


def hexadecimal(element: Any) -> str:
    """An element's bits and value: ``0x3f800000 (1.0)``."""
    bits = np.array([element]).view(f"u{element.dtype.itemsize}")[0]
    return f"0x{int(bits):0{2 * element.dtype.itemsize}x} ({element})"


def difference(where: str, got: Array, expected: Array, inputs: Sequence[Array]) -> str | None:
    """``None`` when the bits are equal; otherwise how many elements differ, and the first three with their inputs."""
    return fault_text(where, compare_bits(got, expected), got, expected, inputs)
