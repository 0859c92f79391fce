"""The references of the operators along axes, held against decimals of 60 digits and DirectML's own examples."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.references import expected_output
from dmlvk.conformance.rows import LENGTHS, row_inputs

Array = npt.NDArray[Any]
D = decimal.Decimal

HARDMAX_INPUT = [[[12, 0], [-101, 11]], [[3, 234], [0, -101]]]


def _run(desc_class: Any, x: Array, axes: tuple[int, ...] | None = None) -> Array:
    tensor = dml.TensorDesc(dml.DataType.from_name(x.dtype.name.upper()), x.shape)
    named = {} if axes is None else {"axis_count": len(axes), "axes": axes}
    return expected_output(desc_class(input_tensor=tensor, output_tensor=tensor, **named), [x])


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ((1,), [[[1, 0], [0, 1]], [[1, 1], [0, 0]]]),
        ((0,), [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]),
        ((0, 2), [[[0, 0], [0, 1]], [[0, 1], [0, 0]]]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_hardmax1_gives_the_examples_of_its_page(axes: tuple[int, ...], expected: list[Any], dtype: Any) -> None:
    assert _run(dml.ActivationHardmax1, np.array(HARDMAX_INPUT, dtype), axes).tolist() == expected


@pytest.mark.parametrize(
    ("row", "index"),
    [
        ([-0.0, 0.0], 0),
        ([0.0, -0.0], 0),
        ([math.nan, -math.inf, -3.0], 2),
        ([math.nan, -math.inf, math.nan], 1),
        ([math.nan, math.nan], 0),
        ([1.0, math.inf, math.inf], 1),
        ([-math.inf, -math.inf], 0),
        ([0.0, 1e-45, 3e-45, 1e-45], 2),
        ([-1e-45, -3e-45], 0),
    ],
)
def test_hardmax_finds_the_first_of_the_largest(row: list[float], index: int) -> None:
    marks = _run(dml.ActivationHardmax, np.array([row], np.float32))[0].tolist()
    assert marks == [float(i == index) for i in range(len(row))]


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


def test_the_sign_of_a_logarithm_next_to_zero() -> None:
    """+0 alone or beside -infinity; below zero as soon as there is another number, however far below."""
    for row, negative in (([7.0], False), ([7.0, -math.inf], False), ([7.0, -3e38], True), ([7.0, -200.0], True)):
        result = _run(dml.ActivationLogSoftmax, np.array([row], np.float32))[0, 0]
        assert (result < 0) == negative
        assert np.signbit(result) == negative
        assert abs(result) < 2.0**-149


@pytest.mark.parametrize("desc_class", [dml.ActivationSoftmax, dml.ActivationLogSoftmax])
def test_rows_without_a_result_are_nan(desc_class: Any) -> None:
    inf, nan = math.inf, math.nan
    x = np.array([[0, nan], [inf, 0], [inf, inf], [-inf, -inf], [inf, -inf], [nan, inf], [0, 1]], np.float32)
    assert np.isnan(_run(desc_class, x)).all(axis=1).tolist() == [True] * 6 + [False]
    masked = _run(desc_class, np.array([[0.0, -inf]], np.float32))[0].tolist()
    assert masked == ([1.0, 0.0] if desc_class is dml.ActivationSoftmax else [0.0, -inf])


def test_denormals_count_as_zero_in_float32_and_not_in_float16() -> None:
    tiny = np.array([[1e-40, -1e-40]], np.float32)
    assert _run(dml.ActivationSoftmax, tiny)[0].tolist() == [0.5, 0.5]
    small = np.array([[2.0**-24, 0.0]], np.float16)
    assert _run(dml.ActivationSoftmax, small)[0, 0] > 0.5


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
