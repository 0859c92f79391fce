"""What a NaN means to a reference does not depend on its kind, and so neither on the processor nor on NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import ValueCase, batches, value_cases
from dmlvk.conformance.execution import describe
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.references.rounding import widened
from dmlvk.tensors import packed_strides

Array = npt.NDArray[Any]

_QUIET = {2: 0x0200, 4: 0x00400000}
"""By the size of a float: the bit that makes any NaN a quiet one."""


def _signalling(x: Array) -> Array:
    """The array with every NaN in it made a signalling one of the same sign."""
    bits = _quiet(x).view(f"u{x.dtype.itemsize}")
    bits[np.isnan(x)] ^= np.array(_QUIET[x.dtype.itemsize], bits.dtype)
    bits[np.isnan(x)] |= np.array(1, bits.dtype)
    return bits.view(x.dtype)


def _quiet(x: Array) -> Array:
    bits = x.view(f"u{x.dtype.itemsize}").copy()
    bits[np.isnan(x)] |= np.array(_QUIET[x.dtype.itemsize], bits.dtype)
    return bits.view(x.dtype)


def _floats(case: ValueCase) -> int:
    return sum(data_type in (dml.FLOAT32, dml.FLOAT16) for _, data_type in case.data_types)


def _float_cases() -> list[ValueCase]:
    """Of each operator that computes, and each float type of its first input, the case with most floats."""
    chosen: dict[tuple[str, dml.DataType], ValueCase] = {}
    for case in sorted(value_cases(), key=_floats, reverse=True):
        first, name = case.tensors("input")[0][1], case.desc_class.operator_name
        if first in (dml.FLOAT32, dml.FLOAT16) and "_BIT_" not in name:
            chosen.setdefault((name, first), case)
    return list(chosen.values())


@pytest.mark.parametrize("case", _float_cases(), ids=lambda case: case.name)
def test_a_signalling_nan_is_a_nan_like_others(case: ValueCase) -> None:
    batch = next(iter(batches(case, 2**10, 1)))
    sizes = batch.sizes or (batch.size,)
    count = len(case.tensors("input")) + len(case.tensors("output"))
    desc = describe(case, sizes, [packed_strides(sizes)] * count, batch.attributes)
    logical = [np.resize(values, sizes) for values in batch.inputs]
    assert any(np.isnan(values).any() for values in logical if values.dtype.kind == "f")
    results = []
    for change in (_quiet, _signalling):
        inputs = [change(values) if values.dtype.kind == "f" else values for values in logical]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.append(expected_output(desc, inputs))
    quiet, signalling = results
    if quiet.dtype.kind == "f":
        assert np.array_equal(np.isnan(quiet), np.isnan(signalling))
        quiet, signalling = (np.where(np.isnan(values), 0, values) for values in results)
    assert np.array_equal(quiet, signalling)


@pytest.mark.parametrize("bits", [0x7C01, 0xFD00, 0x7DFF, 0xFE00, 0x7FFF], ids=hex)
def test_operands_are_widened_to_quiet_nan(bits: int) -> None:
    for values in (np.full(3, bits, np.uint16).view(np.float16), np.full((), bits, np.uint16).view(np.float16)):
        wide = widened(values)
        assert wide.shape == values.shape
        assert np.isnan(wide).all()
        assert ((wide.view(np.uint64) >> np.uint64(51)) & np.uint64(1) == 1).all()
