"""Rows: running sums and reductions, hard numbers, and what bits depend on."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import AxisDirection, DataType, ReduceFunction
from dmlvk.conformance.execution import TensorPlacement, Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.rows import reduction, register_rows, scan
from dmlvk.kernels.target import CPU, GPU
from dmlvk.operators import fused_activation
from tests.effort import TAKES_TURNS
from tests.targets import all_compute_as_gpus, on_llvmpipe

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
    half = (length - 1) // 2
    yield "normal", normal.astype(np.float32)
    yield "positive", (1e6 + normal).astype(np.float32)
    yield "alternating", np.where(np.arange(length) % 2, 1e7 + normal, -1e7 + normal).astype(np.float32)
    yield "of all magnitudes", spread
    yield "cancelling", np.concatenate([spread[:half], -spread[:half], np.full(length - 2 * half, 1e-30, np.float32)])
    yield "huge", (normal * 5e37).astype(np.float32)
    yield "huge, of one sign", (np.abs(normal) * 5e37).astype(np.float32)
    yield "tiny", (normal * 1e-37).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "axis", "data_type", "is_backward"), [((1, 5000), 1, np.float32, False), ((4400, 2), 0, np.float16, True)]
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


@pytest.mark.parametrize("length", [5000, 1, 17, 257])
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


_TYPES = {
    np.dtype(np.float32): DataType.FLOAT32,
    np.dtype(np.float16): DataType.FLOAT16,
    np.dtype(np.int32): DataType.INT32,
    np.dtype(np.int64): DataType.INT64,
    np.dtype(np.int8): DataType.INT8,
    np.dtype(np.uint8): DataType.UINT8,
}


def _reduction_desc(function: ReduceFunction, x: Array, axes: Sequence[int]) -> dml.Reduce:
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


def _reduction_run(device: dml.Device, function: ReduceFunction, x: Array, axes: Sequence[int]) -> Array:
    return device.run(_reduction_desc(function, x, axes), {"InputTensor": x})["OutputTensor"]


@pytest.mark.parametrize("length", [70001, 1, 7, 100, 16389])
def test_reductions_keep_their_promise_and_their_bits(
    device: dml.Device, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on their way through processors, as columns, and beside other rows."""
    rows = dict(_hard_rows(np.random.default_rng(length), length))
    found = {}
    for name, row in rows.items():
        row[np.abs(row) < 2.0**-126] = 0
        numbers = row.astype(np.float64)
        true, magnitudes = math.fsum(numbers), math.fsum(np.abs(numbers))  # each the exact sum, rounded once
        (got,) = found[name] = _reduction_run(device, ReduceFunction.SUM, row, (0,))
        if abs(true) < 2.0**-126:
            assert abs(float(got)) <= 2.0**-126
        elif abs(true) < float(np.finfo(np.float32).max):
            spacing = float(np.spacing(np.abs(np.float32(true))))
            assert abs(float(got) - true) <= 0.5 * spacing + 2.0**-40 * magnitudes, name
        else:
            assert math.isinf(got)
        columns = np.stack([row[::-1], row, np.zeros_like(row)], axis=1)
        assert _reduction_run(device, ReduceFunction.SUM, columns, (0,))[0, 1] == got, name
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    with dml.Device(device.info.index) as as_it_is:
        for name, row in rows.items():
            assert (
                _reduction_run(as_it_is, ReduceFunction.SUM, np.stack([row] * 17), (1,)).tolist()
                == [[found[name][0]]] * 17
            )


def test_rows_with_rare_elements_beside_others_have_a_processors_bits(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several rows in a work group some have to be summed up anew, by lanes that have finished others meanwhile."""
    x = np.random.default_rng(3).normal(0, 1, (9, 301)).astype(np.float32)
    x[4, 7], x[5, 300], x[8, 0] = 3e38, 1e-35, np.inf
    got = _reduction_run(device, ReduceFunction.SUM, x, (1,))
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    with dml.Device(device.info.index) as as_it_is:
        assert (
            got.tobytes() == np.stack([_reduction_run(as_it_is, ReduceFunction.SUM, row, (0,)) for row in x]).tobytes()
        )


def test_many_chunks_come_to_a_processors_bits(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs load what a lane has of them at once, and look for the slow path in the end only."""
    usual = np.random.default_rng(4).normal(0, 1, 64 * 16384 - 5).astype(np.float32)
    unusual = usual.copy()
    unusual[70000], unusual[900000] = 1e-35, 3e38
    tasks = [(function, x) for function in (ReduceFunction.SUM, ReduceFunction.MAX) for x in (usual, unusual)]
    got = [_reduction_run(device, function, x, (0,)).tobytes() for function, x in tasks]
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    with dml.Device(device.info.index) as as_it_is:
        assert got == [_reduction_run(as_it_is, function, x, (0,)).tobytes() for function, x in tasks]


def test_columns_of_larger_work_groups_have_the_same_bits(device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(6).normal(0, 1, (1100, 70)).astype(np.float32)
    x[7, 3], x[900, 11], x[:, 12], x[5, 13] = 1e-35, 3e38, -0.0, np.nan
    functions = (ReduceFunction.SUM, ReduceFunction.L1, ReduceFunction.MAX, ReduceFunction.MIN, ReduceFunction.MULTIPLY)
    expected = [_reduction_run(device, function, x, (0,)).tobytes() for function in functions]
    monkeypatch.setattr(reduction, "_FEWEST_GROUPS", 1)
    desc = _reduction_desc(ReduceFunction.SUM, x, (0,))
    targets = [dataclasses.replace(GPU, work_group_size=size, shared_memory=2**15) for size in (256, 512, 1024)]
    assert [lower(desc, target).steps[0].kernel.work_group_size for target in targets] == [256, 512, 1024]
    assert [_reduction_run(device, function, x, (0,)).tobytes() for function in functions] == expected


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


@pytest.mark.parametrize("columns", [34, 17])
@pytest.mark.parametrize("rows", _ROWS)
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
    expected = [_reduction_run(device, function, x, (1,)).tobytes() for function, x in tasks]
    monkeypatch.setattr(reduction, "_FEWEST_ELEMENTS_IN_TILES", 1)
    for function, x in tasks:
        tiles = lower(_reduction_desc(function, x, (1,)), CPU).steps[0].kernel
        assert tiles.variant.endswith("pieces" if columns % 2 else "pieces.pairs")
    all_compute_as_gpus(monkeypatch, as_gpus=False)
    assert [_reduction_run(with_tiles(device), function, x, (1,)).tobytes() for function, x in tasks] == expected


_LENGTHS = (12, 196, 1028, 12544, 16384)

_RELU = fused_activation("ACTIVATION_RELU")


def _rows(length: int) -> npt.NDArray[np.float32]:
    """Rows of numbers that each take another way: ordinary ones, and such as are zero, tiny, huge, equal or none."""
    random = np.random.default_rng(length)
    usual = random.standard_normal((12, length)).astype(np.float32)
    some = random.random((12, length)) < 4 / length
    rows = usual.copy()
    rows[1] = np.maximum(usual[1], 0)
    rows[2] = np.float32(1.1)
    rows[3][some[3]] *= np.float32(1e-38)
    rows[4][some[4]] *= np.float32(1e38)
    rows[5][some[5]] = np.inf
    rows[6][some[6]] = np.nan
    rows[7] = usual[7] * np.float32(1e-20) + np.float32(3e-13)
    rows[8] = usual[8] * np.float32(1e-35)
    rows[9] = usual[9] * np.float32(1e30)
    rows[10] = np.where(some[10], 1e20, -0.0)
    rows[11] = np.round(usual[11] * 3)
    return rows


def _register_desc(
    length: int, data_type: dml.DataType, scale: str, bias: str, *, relu: bool
) -> dml.MeanVarianceNormalization1:
    """``scale`` and ``bias``: ``"along"`` the row, ``"one"`` number for each row, or ``"none"``."""
    sizes = (3, 4, 1, length)
    strides = {"along": (0, 0, 0, 1), "one": (0, 1, 0, 0)}
    tensor = dml.TensorDesc(data_type, sizes)
    return dml.MeanVarianceNormalization1(
        input_tensor=tensor,
        scale_tensor=dml.TensorDesc(data_type, sizes, strides[scale]) if scale in strides else None,
        bias_tensor=dml.TensorDesc(data_type, sizes, strides[bias]) if bias in strides else None,
        output_tensor=tensor,
        axis_count=2,
        axes=(2, 3),
        normalize_variance=True,
        epsilon=1e-5,
        fused_activation=_RELU if relu else None,
    )


def _operand(shape: str, length: int, seed: int) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(seed)
    values = random.standard_normal((3, 4, 1, length)).astype(np.float32)
    values[..., random.random(length) < 2 / length] = np.float32(0)
    values[..., random.random(length) < 1 / length] = np.float32(1e-39)
    values[..., random.random(length) < 1 / length] = np.float32(1e36)
    return np.broadcast_to(values[:1, :1, :, :] if shape == "along" else values[:1, :, :, :1], values.shape)


@pytest.mark.sweep
@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize(
    ("data_type", "scale", "bias", "relu"),
    [
        (dml.DataType.FLOAT32, "along", "along", False),
        (dml.DataType.FLOAT32, "one", "along", True),
        (dml.DataType.FLOAT32, "none", "one", False),
        (dml.DataType.FLOAT32, "none", "none", False),
        (dml.DataType.FLOAT16, "along", "none", False),
        (dml.DataType.FLOAT16, "one", "one", True),
    ],
)
def test_same_bits_as_step_by_step(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    length: int,
    data_type: dml.DataType,
    scale: str,
    bias: str,
    relu: bool,
) -> None:
    desc = _register_desc(length, data_type, scale, bias, relu=relu)
    with np.errstate(over="ignore"):
        inputs = {
            "InputTensor": _rows(length).reshape(3, 4, 1, length).astype(data_type.numpy_dtype),
            "ScaleTensor": _operand(scale, length, 1).astype(data_type.numpy_dtype),
            "BiasTensor": _operand(bias, length, 2).astype(data_type.numpy_dtype),
        }
    present = {field.name: inputs[field.name] for field, tensor in desc.inputs if tensor is not None}
    # Short rows share a work group, in which one that is rare takes the others along.
    usual = np.random.default_rng(3).standard_normal((3, 4, 1, length)).astype(data_type.numpy_dtype)
    variants = [present] if length > _LENGTHS[1] else [present, present | {"InputTensor": usual}]
    assert len(lower(desc, GPU).steps) == 1
    apart = dml.TensorDesc(data_type, (3, 4, 1, length), (4 * length, 1, 4 * length, 4))
    behind_a_transposition = dataclasses.replace(desc, input_tensor=apart)
    assert len(lower(behind_a_transposition, GPU).steps) == 2
    few = length == _LENGTHS[1] and data_type is dml.DataType.FLOAT32  # SwiftShader takes seconds for each kernel
    for bench in benches if few else on_llvmpipe(benches):
        device = bench.device
        compiled = device.compile_operator(device.create_operator(desc))
        found = [device.run(compiled, each)["OutputTensor"].tobytes() for each in variants]
        copied = device.compile_operator(device.create_operator(behind_a_transposition))
        assert [device.run(copied, each)["OutputTensor"].tobytes() for each in variants] == found
        with monkeypatch.context() as patch:
            patch.setattr(register_rows, "kernel", lambda *args, **kwargs: None)
            assert len(lower(desc, GPU).steps) > 1
            in_steps = device.compile_operator(device.create_operator(desc))
        expected = [device.run(in_steps, each)["OutputTensor"].tobytes() for each in variants]
        assert found == expected, bench.device.info.name


def test_other_rows_go_step_by_step() -> None:
    desc = _register_desc(64, dml.DataType.FLOAT32, "none", "none", relu=False)
    long = dml.TensorDesc(dml.DataType.FLOAT32, (1, 1, 1, 16388))
    odd = dml.TensorDesc(dml.DataType.FLOAT32, (1, 1, 1, 63))
    apart = dml.TensorDesc(dml.DataType.FLOAT32, (3, 4, 1, 64), (64, 192, 768, 3))
    for tensor in (long, odd, apart):
        assert len(lower(dataclasses.replace(desc, input_tensor=tensor, output_tensor=tensor), GPU).steps) > 1
    assert len(lower(desc, CPU).steps) > 1
