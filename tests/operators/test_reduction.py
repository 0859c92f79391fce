"""Reductions: long rows, and that a row's result depends on nothing but the row."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import DataType, ReduceFunction
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.rows import reduction
from dmlvk.kernels.target import CPU, GPU
from tests.effort import TAKES_TURNS, some
from tests.targets import all_compute_as_gpus

Array = npt.NDArray[Any]

_TYPES = {
    np.dtype(np.float32): DataType.FLOAT32,
    np.dtype(np.float16): DataType.FLOAT16,
    np.dtype(np.int32): DataType.INT32,
    np.dtype(np.int64): DataType.INT64,
    np.dtype(np.int8): DataType.INT8,
    np.dtype(np.uint8): DataType.UINT8,
}


def _desc(function: ReduceFunction, x: Array, axes: Sequence[int]) -> dml.Reduce:
    data_type = _TYPES[x.dtype]
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    is_arg = function in (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)
    return dml.Reduce(
        function=function,
        input_tensor=dml.TensorDesc(data_type, x.shape),
        output_tensor=dml.TensorDesc(DataType.UINT32 if is_arg else data_type, sizes),
        axis_count=len(axes),
        axes=axes,
    )


def _run(device: dml.Device, function: ReduceFunction, x: Array, axes: Sequence[int]) -> Array:
    return device.run(_desc(function, x, axes), {"InputTensor": x})["OutputTensor"]


def _hard_rows(random: np.random.Generator, length: int) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    normal = random.normal(0, 1, length)
    yield "normal", normal.astype(np.float32)
    yield "positive", (1e6 + normal).astype(np.float32)
    yield "alternating", np.where(np.arange(length) % 2, 1e7 + normal, -1e7 + normal).astype(np.float32)
    spread = (normal * np.exp2(random.integers(-110, 110, length))).astype(np.float32)
    yield "of all magnitudes", spread
    yield "cancelling", np.concatenate([spread[: length // 2], -spread[: length // 2], np.array([1e-30], np.float32)])
    yield "huge", (np.abs(normal) * 5e37).astype(np.float32)
    yield "tiny", (normal * 1e-36).astype(np.float32)


@pytest.mark.parametrize("length", some([70001, 1, 7, 100, 16389], 2))
def test_sums_keep_their_promise_and_their_bits(
    device: dml.Device, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on their way through processors, as columns, and beside other rows."""
    rows = dict(_hard_rows(np.random.default_rng(length), length))
    found = {}
    for name, row in rows.items():
        row[np.abs(row) < 2.0**-126] = 0
        numbers = row.astype(np.float64)
        true, magnitudes = math.fsum(numbers), math.fsum(np.abs(numbers))  # each the exact sum, rounded once
        (got,) = found[name] = _run(device, ReduceFunction.SUM, row, (0,))
        if abs(true) < 2.0**-126:
            assert abs(float(got)) <= 2.0**-126
        elif abs(true) < float(np.finfo(np.float32).max):
            spacing = float(np.spacing(np.abs(np.float32(true))))
            assert abs(float(got) - true) <= 0.5 * spacing + 2.0**-40 * magnitudes, name
        else:
            assert math.isinf(got)
        columns = np.stack([row[::-1], row, np.zeros_like(row)], axis=1)
        assert _run(device, ReduceFunction.SUM, columns, (0,))[0, 1] == got, name
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    with dml.Device(device.info.index) as as_it_is:
        for name, row in rows.items():
            assert _run(as_it_is, ReduceFunction.SUM, np.stack([row] * 17), (1,)).tolist() == [[found[name][0]]] * 17


def test_rows_with_rare_elements_beside_others_have_a_processors_bits(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several rows in a work group some have to be summed up anew, by lanes that have finished others meanwhile."""
    x = np.random.default_rng(3).normal(0, 1, (9, 301)).astype(np.float32)
    x[4, 7], x[5, 300], x[8, 0] = 3e38, 1e-35, np.inf
    got = _run(device, ReduceFunction.SUM, x, (1,))
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    with dml.Device(device.info.index) as as_it_is:
        assert got.tobytes() == np.stack([_run(as_it_is, ReduceFunction.SUM, row, (0,)) for row in x]).tobytes()


def test_many_chunks_come_to_a_processors_bits(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs load what a lane has of them at once, and look for the slow path in the end only."""
    usual = np.random.default_rng(4).normal(0, 1, 64 * 16384 - 5).astype(np.float32)
    unusual = usual.copy()
    unusual[70000], unusual[900000] = 1e-35, 3e38
    tasks = [(function, x) for function in (ReduceFunction.SUM, ReduceFunction.MAX) for x in (usual, unusual)]
    got = [_run(device, function, x, (0,)).tobytes() for function, x in tasks]
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    with dml.Device(device.info.index) as as_it_is:
        assert got == [_run(as_it_is, function, x, (0,)).tobytes() for function, x in tasks]


def test_columns_of_larger_work_groups_have_the_same_bits(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(6).normal(0, 1, (1100, 70)).astype(np.float32)
    x[7, 3], x[900, 11], x[:, 12], x[5, 13] = 1e-35, 3e38, -0.0, np.nan
    functions = (ReduceFunction.SUM, ReduceFunction.L1, ReduceFunction.MAX, ReduceFunction.MIN, ReduceFunction.MULTIPLY)
    expected = [_run(device, function, x, (0,)).tobytes() for function in functions]
    monkeypatch.setattr(reduction, "_FEWEST_GROUPS", 1)
    desc = _desc(ReduceFunction.SUM, x, (0,))
    targets = [dataclasses.replace(GPU, work_group_size=size, shared_memory=2**15) for size in (256, 512, 1024)]
    assert [lower(desc, target).steps[0].kernel.work_group_size for target in targets] == [256, 512, 1024]
    assert [_run(device, function, x, (0,)).tobytes() for function in functions] == expected


_IN_TILES: dict[type[Any], list[ReduceFunction]] = {
    np.float32: [f for f in ReduceFunction if f not in (ReduceFunction.MULTIPLY, ReduceFunction.LOG_SUM_EXP)],
    np.float16: [ReduceFunction.SUM, ReduceFunction.L2, ReduceFunction.MIN],
    np.int32: [ReduceFunction.SUM, ReduceFunction.MULTIPLY, ReduceFunction.L1],
    np.int8: [ReduceFunction.MAX, ReduceFunction.ARGMIN],
    np.uint8: [ReduceFunction.MIN, ReduceFunction.ARGMAX],
}


@pytest.fixture(scope="module")
def with_tiles() -> Iterator[Callable[[dml.Device], dml.Device]]:
    """Another device of the same driver, on which kernels that another test of tiles needed are compiled already."""
    with ExitStack() as stack:
        opened = functools.cache(lambda index: stack.enter_context(dml.Device(index)))
        yield lambda device: opened(device.info.index)


_ROWS = [64, 301, 1000, 2048, 4096, 12288, 17000, 32768]


@pytest.mark.t_way(1)
@pytest.mark.parametrize("columns", [34, 17])
@pytest.mark.parametrize("rows", some(_ROWS, 8))
def test_columns_in_tiles_have_the_same_bits(
    device: dml.Device,
    with_tiles: Callable[[dml.Device], dml.Device],
    rows: int,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(rows)
    numbers = random.normal(0, 40, (2, rows, columns))
    numbers[:, :, 5], numbers[:, :, 6] = -0.0, 7
    tasks = [
        (f, numbers.clip(0 if np.dtype(t).kind == "u" else -99, 99).astype(t)) for t in _IN_TILES for f in _IN_TILES[t]
    ]
    unusual = numbers.astype(np.float32)
    unusual[0, 7, 3], unusual[1, rows - 1, 11], unusual[0, rows // 2, 13] = 1e-35, 3e38, np.nan
    unusual[1, 5, 12], unusual[0, 9, 16] = np.inf, 1e-42
    tasks += [(function, unusual) for function in _IN_TILES[np.float32]]
    # Each of them with two short and two long columns, one of each with either number of columns; where tests take
    # turns with one short and one long, of which one has the even number and one the odd one.
    is_long, number = divmod(_ROWS.index(rows), 4)
    first = 2 * number + (is_long + columns) % 2 if TAKES_TURNS else (number + 2 * (columns % 2)) % 4
    tasks = tasks[first :: 8 if TAKES_TURNS else 4]
    expected = [_run(device, function, x, (1,)).tobytes() for function, x in tasks]
    monkeypatch.setattr(reduction, "_FEWEST_ELEMENTS_IN_TILES", 1)
    for function, x in tasks:
        tiles = lower(_desc(function, x, (1,)), CPU).steps[0].kernel
        assert tiles.variant.endswith("pieces" if columns % 2 else "pieces.pairs")
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    assert [_run(with_tiles(device), function, x, (1,)).tobytes() for function, x in tasks] == expected


@pytest.mark.parametrize("length", [70, 1027])
def test_of_equal_elements_the_first_or_the_last_is_found(device: dml.Device, length: int) -> None:
    x = np.random.default_rng(length).integers(0, 4, (6, length)).astype(np.float32)
    x[1], x[2] = np.nan, 0
    x[3, ::2] = np.nan
    numbers = np.where(np.isnan(x), -1, x)
    for direction in dml.AxisDirection:
        desc = dml.Argmax(
            input_tensor=dml.TensorDesc(DataType.FLOAT32, x.shape),
            output_tensor=dml.TensorDesc(DataType.UINT32, (6, 1)),
            axis_count=1,
            axes=(1,),
            axis_direction=direction,
        )
        got = device.run(desc, {"InputTensor": x})["OutputTensor"][:, 0]
        is_first = direction is dml.AxisDirection.INCREASING
        last = length - 1 - numbers[:, ::-1].argmax(1)
        assert got.tolist() == (numbers.argmax(1) if is_first else last).tolist()


def test_rows_of_several_chunks_have_places_and_exact_integers(device: dml.Device) -> None:
    random = np.random.default_rng(5)
    x = random.integers(-(2**31), 2**31, (2, 40000), np.int32)
    x[:, 33333] = x[:, 20000] = 2**31 - 1
    assert _run(device, ReduceFunction.ARGMAX, x, (1,)).tolist() == [[20000], [20000]]
    assert _run(device, ReduceFunction.SUM, x, (1,))[:, 0].tolist() == x.sum(1, dtype=np.int32).tolist()
    wide = x.astype(np.int64) * 3000000019 | 1
    product = np.multiply.reduce(wide, axis=1, keepdims=True)  # wraps
    assert np.array_equal(_run(device, ReduceFunction.MULTIPLY, wide, (1,)), product)


def test_products_do_not_overflow_on_the_way(device: dml.Device) -> None:
    x = np.array([[1e30] * 40 + [1e-30] * 40 + [-3.0], [1e30] * 81, [1e-30] * 81], np.float32)
    got = _run(device, ReduceFunction.MULTIPLY, x, (1,))[:, 0]
    exact = float(math.prod(map(Fraction, x[0].astype(np.float64).tolist())))
    assert abs(float(got[0]) - exact) <= 0.501 * float(np.spacing(np.float32(-exact)))
    assert got[1] == np.inf
    assert got[2] == 0


def test_norms_neither_overflow_nor_vanish(device: dml.Device) -> None:
    x = np.array([[3e30, 4e30, 0, 0], [3e-30, -4e-30, 0, 0]], np.float32)
    got = _run(device, ReduceFunction.L2, x, (1,))[:, 0]
    assert np.allclose(got / np.array([5e30, 5e-30], np.float32), 1, rtol=2e-7)
    assert _run(device, ReduceFunction.SUM_SQUARE, x, (1,))[:, 0].tolist() == [np.inf, 0]
