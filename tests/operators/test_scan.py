"""Running sums and products: long rows, hard numbers, and what bits depend on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import AxisDirection, DataType
from dmlvk.conformance.execution import TensorPlacement, Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.rows import scan
from dmlvk.kernels.target import GPU
from tests.effort import some
from tests.targets import all_compute_as_gpus

Array = npt.NDArray[Any]

SUM, PRODUCT = "CUMULATIVE_SUMMATION", "CUMULATIVE_PRODUCT"
_EXCLUSIVE = {SUM: "HasExclusiveSum", PRODUCT: "HasExclusiveProduct"}


def _desc(name: str, x: Array, axis: int, is_backward: bool = False, is_exclusive: bool = False) -> dml.OperatorDesc:
    tensor = dml.TensorDesc(DataType[x.dtype.name.upper()], x.shape)
    direction = AxisDirection.DECREASING if is_backward else AxisDirection.INCREASING
    members = {"InputTensor": tensor, "OutputTensor": tensor, "Axis": axis, "AxisDirection": direction}
    return dml.operator_desc(name, **members, **{_EXCLUSIVE[name]: is_exclusive})


def _run(device: dml.Device, name: str, x: Array, axis: int = 0, **flags: bool) -> Array:
    return device.run(_desc(name, x, axis, **flags), {"InputTensor": x})["OutputTensor"]


def _hard_rows(random: np.random.Generator, length: int) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    normal = random.normal(0, 1, length)
    spread = (normal * np.exp2(random.integers(-110, 110, length))).astype(np.float32)
    half = length // 2
    yield "normal", normal.astype(np.float32)
    yield "positive", (1e6 + normal).astype(np.float32)
    yield "alternating", np.where(np.arange(length) % 2, 1e7 + normal, -1e7 + normal).astype(np.float32)
    yield "of all magnitudes", spread
    yield "cancelling", np.concatenate([spread[:half], -spread[:half], np.full(length - 2 * half, 1e-30, np.float32)])
    yield "huge", (normal * 5e37).astype(np.float32)
    yield "tiny", (normal * 1e-37).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axis", "data_type", "is_backward"),
    [((1, 5000), 1, np.float32, False), ((4400, 2), 0, np.float16, True)],
)
def test_work_groups_that_go_through_whole_rows_make_the_same_bits(
    shape: tuple[int, int],
    axis: int,
    data_type: type,
    is_backward: bool,
    device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As GPUs do; elements are rare from the first chunk on, from a later one, at the end, or nowhere."""
    random = np.random.default_rng(shape[0])
    x: Array = random.normal(0, 1, shape).astype(data_type)
    x[random.random(shape) < 0.1] = 0
    flags = {"is_backward": is_backward, "is_exclusive": is_backward}
    for unusual in (2, shape[axis] * 2 // 3, -1, None):
        y = x.copy()
        if unusual is not None:
            np.moveaxis(y, axis, 0)[unusual] = np.inf if data_type == np.float16 else 2e38
        expected = _run(device, SUM, y[np.newaxis], axis + 1, **flags)  # another description, with a kernel of its own
        with monkeypatch.context() as patched:
            patched.setattr(scan, "_WORK_GROUPS_FOR_CHUNK", 1 / 64)
            if unusual in (2, None):  # in turn with and without what not every device has room for
                patched.setattr(scan, "_FEWEST_WIDE_ROWS", 1)
            else:
                patched.setattr(scan, "_TILE_BYTES", 2**20)
            all_compute_as_gpus(patched)
            assert len(lower(_desc(SUM, y, axis, **flags), GPU).steps) == 1
            assert _run(device, SUM, y, axis, **flags).tobytes() == expected.tobytes()


@pytest.mark.parametrize("length", some([5000, 1, 17, 257], 2))
def test_sums_keep_their_promise_and_their_bits(device: dml.Device, length: int) -> None:
    """As rows, as columns, beside others, backward, and as the beginning of a longer row."""
    for name, row in _hard_rows(np.random.default_rng(length), length):
        got = _run(device, SUM, row)
        row[np.abs(row) < 2.0**-126] = 0  # what denormals count as
        numbers = list(map(Fraction, row.astype(np.float64).tolist()))
        sums, magnitudes = itertools.accumulate(numbers), itertools.accumulate(map(abs, numbers))
        for result, exact, magnitude in zip(got.tolist(), sums, magnitudes, strict=True):
            if abs(exact) > Fraction(float(np.finfo(np.float32).max)):
                assert math.isinf(result), name
                continue
            spacing = Fraction(float(np.spacing(np.abs(np.float32(float(exact))))))
            denormal = abs(exact) if abs(exact) < Fraction(2) ** -126 else 0
            assert abs(Fraction(result) - exact) <= spacing / 2 + magnitude / 2**39 + denormal, name
        bits = got.tobytes()
        columns = np.stack([row[::-1], row, np.zeros_like(row)], axis=1)
        assert np.ascontiguousarray(_run(device, SUM, columns)[:, 1]).tobytes() == bits, name
        assert _run(device, SUM, row[::-1].copy(), is_backward=True)[::-1].tobytes() == bits, name
        longer = np.concatenate([row, row + np.float32(1)])
        assert _run(device, SUM, np.stack([longer, longer]), 1)[1, :length].tobytes() == bits, name


@pytest.mark.parametrize("sizes", [(1_100_000,), (70_000, 2)])
def test_integers_wrap_in_rows_of_any_length(device: dml.Device, sizes: tuple[int, ...]) -> None:
    """Lengths that take states of states."""
    random = np.random.default_rng(3)
    for dtype in (np.uint32, np.int64):
        info = np.iinfo(dtype)
        x = random.integers(info.min, info.max, sizes, dtype, endpoint=True) | dtype(1)
        assert np.array_equal(_run(device, SUM, x), np.cumsum(x, 0, dtype))
        assert np.array_equal(_run(device, PRODUCT, x), np.cumprod(x, 0, dtype))
        assert np.array_equal(_run(device, SUM, x, is_backward=True), np.cumsum(x[::-1], 0, dtype)[::-1])


def test_products_neither_overflow_nor_vanish_on_the_way(device: dml.Device) -> None:
    x = np.array([1e30, 1e30, 1e-30, 1e-30, -3, 1e-30, 1e-30, 1e30, -1e30, 0, -2, np.inf, 1], np.float32)
    got = _run(device, PRODUCT, x)
    products = itertools.accumulate(map(Fraction, x[:9].astype(np.float64).tolist()), lambda a, b: a * b)
    for result, exact in zip(got[:9].tolist(), products, strict=True):
        true = float(exact)
        if abs(true) > 1e38:
            assert result == math.copysign(math.inf, true)
        elif abs(true) < 1e-38:
            assert result == 0
            assert math.copysign(1.0, result) == math.copysign(1.0, true)
        else:
            assert abs(result - true) <= 0.501 * float(np.spacing(np.float32(abs(true))))
    assert got[9:11].tolist() == [0, 0]
    assert np.signbit(got[9:11]).tolist() == [False, True]
    assert np.isnan(got[11:]).all()


def test_special_values_stay_in_sums(device: dml.Device) -> None:
    x = np.array([1, -np.inf, 5, np.inf, 2], np.float32)
    got = _run(device, SUM, x)
    assert got[:3].tolist() == [1, -np.inf, -np.inf]
    assert np.isnan(got[3:]).all()
    assert _run(device, SUM, x, is_exclusive=True)[:4].tolist() == [0, 1, -np.inf, -np.inf]
    zeros = _run(device, SUM, np.full(3, -0.0, np.float32))
    assert not np.signbit(zeros).any()


def test_few_launches_even_for_long_rows() -> None:
    for sizes, steps in (((64, 4096), 1), ((256, 64), 1), ((2**20,), 3), ((2**26,), 5), ((2**24, 4), 5)):
        axis = 0 if len(sizes) == 1 or sizes[0] in (256, 2**24) else 1
        tensor = dml.TensorDesc(DataType.FLOAT32, sizes)
        desc = dml.CumulativeSummation(
            input_tensor=tensor,
            output_tensor=tensor,
            axis=axis,
            axis_direction=AxisDirection.INCREASING,
            has_exclusive_sum=False,
        )
        assert len(lower(desc, GPU).steps) == steps, sizes


@pytest.mark.parametrize("is_backward", [False, True])
def test_input_and_output_may_be_one_range(benches: list[Workbench], is_backward: bool) -> None:
    x = np.random.default_rng(1).integers(-(2**31), 2**31, (3, 9001), np.int32)
    desc = _desc(SUM, x, 1, is_backward)
    rows = x[:, ::-1] if is_backward else x
    expected = np.cumsum(rows, 1, np.int32)
    for bench in benches:
        (after,) = bench.run(desc, [x.reshape(-1).view(np.uint8)], [TensorPlacement(0), TensorPlacement(0)])
        got = after.view(np.int32).reshape(x.shape)
        assert np.array_equal(got[:, ::-1] if is_backward else got, expected)
