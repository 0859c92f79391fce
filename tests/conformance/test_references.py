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
from tests.conformance.known import bits_of, float16, float32, reference

Array = npt.NDArray[Any]


def _threshold(x: Array, minimum: float, scale_bias: tuple[float, float] | None = None) -> Array:
    pair: dict[str, Any] = {} if scale_bias is None else {"ScaleBias": dml.ScaleBias(*scale_bias)}
    return reference("ELEMENT_WISE_THRESHOLD", x, Min=minimum, **pair)


def test_every_operator_has_a_reference_and_no_other_has() -> None:
    assert sorted(REFERENCES) == sorted(OPERATORS)


def test_if_moves_bits() -> None:
    a = float32(0x7F800001, 0x00000001, 0x80000000, 0x3F800000)
    b = float32(0xFFC12345, 0x80000001, 0x00000000, 0x40000000)
    condition = np.array([0, 1, 255, 0], np.uint8)
    got = reference("ELEMENT_WISE_IF", condition, a, b, output=dml.FLOAT32)
    assert bits_of(got) == ["ffc12345", "00000001", "80000000", "40000000"]


@pytest.mark.parametrize("output_type", [dml.UINT8, dml.UINT32])
def test_greater_than_orders_denormals_and_zeros_and_refuses_nan(output_type: dml.DataType) -> None:
    nan, low_nan, minus_nan, inf, tiny, minus_tiny = 0x7FC00000, 0x7F800001, 0xFF800001, 0x7F800000, 1, 0x80000001
    pairs = [(nan, 0), (0, nan), (low_nan, minus_nan), (inf, nan), (0, 0x80000000), (0x80000000, 0), (tiny, 0)]
    pairs += [(2, 1), (1, 2), (minus_tiny, tiny), (tiny, minus_tiny), (inf, 0x7F7FFFFF), (0, 0xFF800000)]
    a, b = (float32(*column) for column in zip(*pairs, strict=True))
    got = reference("ELEMENT_WISE_LOGICAL_GREATER_THAN", a, b, output=output_type)
    assert got.dtype == output_type.numpy_dtype
    assert got.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1]


def test_greater_than_of_64_bit_integers_needs_all_their_bits() -> None:
    a = np.array([2**63 - 1, -(2**63), 2**53 + 1, -1, 2**32], np.int64)
    b = np.array([2**63 - 2, 2**63 - 1, 2**53, -(2**33), 2**32], np.int64)
    assert reference("ELEMENT_WISE_LOGICAL_GREATER_THAN", a, b, output=dml.UINT8).tolist() == [1, 0, 1, 1, 0]


def test_sign_of_floats() -> None:
    x = float32(0, 0x80000000, 1, 0x80000001, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000, 0xC0490FDB)
    one, minus_one, zero = "3f800000", "bf800000", "00000000"
    assert bits_of(reference("ELEMENT_WISE_SIGN", x)) == [
        *(zero, zero, one, minus_one, one, minus_one, zero, zero, minus_one)
    ]


def test_sign_of_integers() -> None:
    signed, unsigned = np.array([-(2**63), -1, 0, 1, 2**63 - 1], np.int64), np.array([0, 1, 128, 255], np.uint8)
    for x, expected in ((signed, [-1, -1, 0, 1, 1]), (unsigned, [0, 1, 1, 1])):
        assert reference("ELEMENT_WISE_SIGN", x).tolist() == expected


def test_threshold_prefers_numbers_and_positive_zero() -> None:
    x = float32(0x7F800001, 0x80000000, 0x00000000, 0xC0000000, 0x40000000, 1, 0x80000001, 0xFF800000)
    assert bits_of(_threshold(x, 0.0)) == ["00000000"] * 4 + ["40000000", "00000001", "00000000", "00000000"]
    assert bits_of(_threshold(x, -0.0))[:3] == ["80000000", "80000000", "00000000"]
    assert bits_of(_threshold(x, math.nan)) == ["7fc00000", *bits_of(x)[1:]]
    assert bits_of(_threshold(x, -math.inf)) == ["ff800000", *bits_of(x)[1:]]


def test_threshold_converts_min_to_the_tensors_type() -> None:
    lowest16 = float16(0xFC00)
    minimums = {65519.0: "7bff", 65520.0: "7c00", 2.0**-24: "0001", 2.0**-25: "0000", -1e-10: "8000", 0.1: "2e66"}
    for minimum, bits in minimums.items():
        assert bits_of(_threshold(lowest16, minimum)) == [bits], minimum
    lowest8 = np.array([-128], np.int8)
    integers = {
        1.9: 1,
        -1.9: -1,
        -0.5: 0,
        127.5: 127,
        1e9: 127,
        -1e9: -128,
        math.inf: 127,
        -math.inf: -128,
        math.nan: 0,
    }
    for minimum, number in integers.items():
        assert _threshold(lowest8, minimum).tolist() == [number], minimum
    assert _threshold(np.array([0, 7], np.uint32), 4294967296.0).tolist() == [2**32 - 1] * 2
    assert _threshold(np.array([0, 7], np.uint16), -5.0).tolist() == [0, 7]


def test_scale_bias_is_rounded_once_and_drops_float32_denormals() -> None:
    x = float32(0x3F800003, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF)
    # (1 + 3 * 2**-23)**2 - 1 is 6 * 2**-23 + 9 * 2**-46: rounding the product first would lose the last term.
    got = _threshold(x, -math.inf, (float(x[0]), -1.0))
    assert bits_of(got) == ["35400002", "bf800000", "bf800000", "bf800000", "7f800000"]
    assert bits_of(_threshold(x, -math.inf, (0.5, 0.0)))[1:4] == ["00000000"] * 3
    assert bits_of(_threshold(x, -math.inf, (-0.5, -0.0)))[1:4] == ["80000000", "00000000", "80000000"]
    assert bits_of(_threshold(x, -math.inf, (1.0, 1e-45)))[1:3] == ["00000000", "00000000"]
    assert bits_of(_threshold(x, -math.inf, (1e-45, 2.0)))[:1] == ["40000000"]
    assert bits_of(_threshold(x, -math.inf, (-1.0, -0.0)))[1:3] == ["80000000", "00000000"]


def test_scale_bias_keeps_float16_denormals() -> None:
    x = float16(0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0x7C01)
    assert bits_of(_threshold(x, -math.inf, (1.0, 0.0))) == ["0001", "03ff", "0400", "7bff", "7c00", "fc00"]
    assert bits_of(_threshold(x, -math.inf, (0.5, 0.0)))[:3] == ["0000", "0200", "0200"]
    assert bits_of(_threshold(x, -math.inf, (math.inf, 0.0)))[0] == "7c00"
    assert bits_of(_threshold(float16(0, 0x8000), math.nan, (math.inf, 0.0)))[0] == "7e00"


def test_scale_bias_of_integers_truncates_and_saturates() -> None:
    x = np.array([-128, -3, -1, 0, 1, 3, 127], np.int8)
    assert _threshold(x, -math.inf, (0.5, 0.0)).tolist() == [-64, -1, 0, 0, 0, 1, 63]
    assert _threshold(x, -math.inf, (2.0, 1.0)).tolist() == [-128, -5, -1, 1, 3, 7, 127]
    assert _threshold(x, -math.inf, (1.0, 1e-45)).tolist() == x.tolist()
    assert _threshold(x, -math.inf, (1.0, -(2.0**-126))).tolist() == [-128, -3, -1, 0, 0, 2, 126]
    large = np.array([2**31 - 1, -(2**31), 16777217], np.int32)
    assert _threshold(large, -math.inf, (1.0, 0.0)).tolist() == large.tolist()
    assert _threshold(large, -math.inf, (3.0, 2.0**31)).tolist() == [2**31 - 1, -(2**31), 2**31 - 1]
    assert _threshold(np.array([2**32 - 1], np.uint32), -math.inf, (-1.0, 2.0**32)).tolist() == [1]


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
