"""What products must be that a device rounds as it likes: true values with the stated error, instead of bits.

True sums are taken in float64. Whether a sum overflows on its way is decided by its order, which is the same as ever:
where the reference that follows it has infinities or NaN, so must the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.bounded import Bounded, Expected, expected_outputs
from dmlvk.conformance.references.products import SEGMENT, Terms, convolved, gemm_terms, operand, scalar
from dmlvk.datatypes import DataType
from dmlvk.errors import UnsupportedError
from dmlvk.operators import OperatorDesc

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]

OPERATORS = ("CONVOLUTION", "GEMM", "GRU", "LSTM", "MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1", "RNN")
"""Those with sums of FLOAT32 products. The references of all but the first two are true values with bounds anyway."""

OPERATORS_OF_HALVES = ("CONVOLUTION", "GEMM", "MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1")
"""Those with sums of FLOAT16 products that cooperative matrices compute, where a device has them."""

_STEP = 2.0**-24
_LONGEST_SEGMENT = 16384  # Terms of FLOAT16 that cooperative matrices add up in a row
_SMALLEST = 2.0**-126


def is_rounded_by_device(operator_name: str, data_types: Mapping[str, DataType], *, of_halves: bool = False) -> bool:
    """Whether an operator's bits are the device's where ALLOW_DEVICE_ARITHMETIC is given.

    Args:
        of_halves: whether the device multiplies matrices of FLOAT16.
    """
    types = data_types.values()
    if of_halves and operator_name in OPERATORS_OF_HALVES and DataType.FLOAT16 in types:
        return True
    return operator_name in OPERATORS and DataType.FLOAT32 in types


def outputs_within_error(desc: OperatorDesc, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    """As ``expected_outputs``, but of sums that a device rounds as it likes."""
    bounded = _BOUNDED.get(desc.operator_name)
    return expected_outputs(desc, inputs) if bounded is None else bounded(desc, inputs)


def _sums(terms: Terms, shape: tuple[int, ...], longest: int) -> Floats:
    """True sums and how far from them a device's may be, one behind the other along a last axis.

    Args:
        longest: how many terms are added up in a row.
    """
    values, magnitudes, operands = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    count = 0
    with np.errstate(all="ignore"):
        for a, b, counts in terms:
            count += 1
            product = a.astype(np.float64) * b.astype(np.float64)
            product = product if counts is None else np.where(counts, product, 0.0)
            values = values + product
            magnitudes = magnitudes + np.abs(product)
            both = np.abs(a).astype(np.float64) + np.abs(b)
            operands = operands + (both if counts is None else np.where(counts, both, 0.0))
        segments = -(-count // SEGMENT)
        # Products and sums that are denormal may count as zeros, and so may what operands have below the least normal
        # number: parts of them are denormal.
        errors = (min(longest, count) + segments + 2) * _STEP * magnitudes + (2 * count + operands) * _SMALLEST
    return np.stack([values, errors], axis=-1)


def _longest(data_type: DataType) -> int:
    return SEGMENT if data_type is DataType.FLOAT32 else _LONGEST_SEGMENT


def _rounded(values: Floats, errors: Floats) -> Floats:
    """The errors when values were rounded to float32 once more."""
    with np.errstate(all="ignore"):
        made: Floats = errors + (np.abs(values) + errors) * _STEP + _SMALLEST
    return made


def _rounded_to_half(values: Floats, errors: Floats) -> Floats:
    """The errors when values were rounded to float16 at last."""
    with np.errstate(all="ignore"):
        made: Floats = errors + np.maximum((np.abs(values) + errors) * 2.0**-11, 2.0**-25)
    return made


def _result(
    desc: dml.Convolution | dml.Gemm, inputs: Mapping[str, Array], values: Floats, errors: Floats
) -> Mapping[str, Expected]:
    """Where sums may overflow, and where they are no numbers, results are what the order of the sums makes of them."""
    fused = desc.activation
    if desc.output_type is DataType.FLOAT16:
        errors = _rounded_to_half(values, errors)
    if fused is not None:
        if fused.operator_name not in ("ACTIVATION_IDENTITY", "ACTIVATION_RELU"):
            raise UnsupportedError(f"{desc.operator_name}: there is no bound for results of {fused.operator_name}")
        if fused.operator_name == "ACTIVATION_RELU":
            values = np.where(values < 0, 0.0, values)
    ordered = expected_outputs(desc, inputs)["OutputTensor"]
    assert isinstance(ordered, np.ndarray)  # of bits
    is_number = np.isfinite(values) & np.isfinite(ordered)
    return {"OutputTensor": Bounded(np.where(is_number, values, ordered), np.where(is_number, errors, 0.0))}


def _gemm(desc: dml.Gemm, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    terms = gemm_terms(desc, operand(inputs["ATensor"]), operand(inputs["BTensor"]))
    made = _sums(terms, tuple(desc.output_tensor.sizes), _longest(desc.output_type))
    added: Floats
    alpha = float(scalar(desc.alpha))
    with np.errstate(all="ignore"):
        values: Floats = made[..., 0] * alpha
        errors = _rounded(values, made[..., 1] * abs(alpha))
        if desc.c_tensor is not None:
            added = inputs["CTensor"].astype(np.float64) * float(scalar(desc.beta))
            values = values + added
            errors = _rounded(values, errors + _rounded(added, np.zeros(added.shape)))
    return _result(desc, inputs, values, errors)


def _convolution(desc: dml.Convolution, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
    def sums(terms: Terms, shape: tuple[int, ...]) -> Floats:
        return _sums(terms, shape, _longest(desc.output_type))

    made = convolved(desc, operand(inputs["InputTensor"]), operand(inputs["FilterTensor"]), sums)
    values: Floats = made[..., 0]
    errors: Floats = made[..., 1]
    if desc.bias_tensor is not None:
        with np.errstate(all="ignore"):
            values = values + inputs["BiasTensor"].astype(np.float64)
            errors = _rounded(values, errors)
    return _result(desc, inputs, values, errors)


_BOUNDED: Mapping[str, Callable[[Any, Mapping[str, Array]], Mapping[str, Expected]]] = {
    "CONVOLUTION": _convolution,
    "GEMM": _gemm,
}
