"""The references give known results, along axes and of every NaN, and every operator has one."""

from __future__ import annotations

import decimal
import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import ValueCase, batches, value_cases
from dmlvk.conformance.execution import describe
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.conformance.references.rounding import widened
from dmlvk.conformance.rows import LENGTHS, row_inputs
from dmlvk.operators import OPERATORS
from dmlvk.tensors import packed_strides

Array = npt.NDArray[Any]


def test_every_operator_has_a_reference_and_no_other_has() -> None:
    assert sorted(REFERENCES) == sorted(OPERATORS)


_QUIET = {2: 0x0200, 4: 0x00400000}  # By the size of a float: the bit that makes any NaN a quiet one


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


D = decimal.Decimal


def _run(desc_class: Any, x: Array, axes: tuple[int, ...] | None = None) -> Array:
    tensor = dml.TensorDesc(dml.DataType.from_name(x.dtype.name.upper()), x.shape)
    named = {} if axes is None else {"axis_count": len(axes), "axes": axes}
    return expected_output(desc_class(input_tensor=tensor, output_tensor=tensor, **named), [x])


def _exact(row: list[float]) -> tuple[list[D], list[D]]:
    """SOFTMAX and its logarithms, with 60 digits."""
    with decimal.localcontext() as context:
        context.prec = 60
        numbers = [D(x) for x in row]
        peak = max(numbers)
        powers = [(x - peak).exp() for x in numbers]
        index = numbers.index(peak)
        others = sum((p for i, p in enumerate(powers) if i != index), D(0))
        # ln(1 + others) by its series where the 1 would swallow the others.
        logarithm = (1 + others).ln() if others > D(10) ** -25 else others - others * others / 2
        return [p / (1 + others) for p in powers], [x - peak - logarithm for x in numbers]


ROWS = (
    [0.0],
    [1.0, 1.0],
    [3.0, 0.5, -2.25],
    [-1000.0, -1000.5, -1003.0],
    [0.0, -40.0, -41.0],
    [0.0, -100.0],
    [88.0, -88.0, 0.0],
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7],
    [5.0, -500.0, 4.9999995],
)


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_softmax_and_its_logarithms_are_the_true_values(row: list[float], dtype: Any) -> None:
    x = np.array([row], dtype)
    shares, logarithms = _exact(x[0].astype(float).tolist())
    for got, exact in ((_run(dml.ActivationSoftmax, x), shares), (_run(dml.ActivationLogSoftmax, x), logarithms)):
        assert got.dtype == np.float64
        for value, true in zip(got[0].tolist(), exact, strict=True):
            if abs(true) > D(10) ** -300:
                assert abs(D(value) / true - 1) < D(2) ** -45, (row, value, true)
            else:
                assert abs(value) < 1e-300


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16])
@pytest.mark.parametrize("names_axes", [False, True])
def test_inputs_are_of_all_lengths_and_kinds(data_type: dml.DataType, names_axes: bool) -> None:
    made = list(row_inputs(data_type, names_axes, 2**17, np.random.default_rng(3)))
    lengths, counts = set(), np.zeros(4, int)
    total = 0
    for _, shape, values in made:
        assert values.shape == shape.sizes
        assert values.dtype == data_type.numpy_dtype
        assert len(shape.sizes) <= 8
        assert names_axes or len(shape.sizes) == 2
        lengths.add(math.prod(shape.sizes[axis] for axis in shape.row_axes))
        with np.errstate(invalid="ignore"):  # signalling NaN
            rows = np.moveaxis(values, shape.row_axes, range(-len(shape.row_axes), 0)).astype(np.float64)
        rows = rows.reshape(-1, math.prod(shape.sizes[axis] for axis in shape.row_axes))
        counts += [
            int(np.isnan(rows).any(axis=1).sum()),
            int(np.isneginf(rows).all(axis=1).sum()),
            int((np.isneginf(rows).any(axis=1) & np.isfinite(rows).any(axis=1)).sum()),
            int(np.isfinite(rows).all(axis=1).sum()),
        ]
        total += values.size
    assert set(LENGTHS) <= lengths
    assert total >= 2**17
    assert (counts > 20).all(), counts
