"""Pooling: what averages promise, and windows that share what they load."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.kernels.windows import window as window_kernels
from dmlvk.runtime import shader_forms
from tests.operators.test_products import on_llvmpipe

WINDOWS: dict[str, Any] = {
    "dimension_count": 2,
    "strides": (1, 1),
    "window_size": (2, 2),
    "start_padding": (0, 0),
    "end_padding": (0, 0),
}


def _average(sizes: tuple[int, ...], output: tuple[int, ...], **more: Any) -> dml.OperatorDesc:
    members = {**WINDOWS, "include_padding": False, **more}
    return dml.AveragePooling(
        input_tensor=dml.TensorDesc(dml.FLOAT32, sizes), output_tensor=dml.TensorDesc(dml.FLOAT32, output), **members
    )


def test_averages_of_huge_numbers_do_not_overflow_and_cancellation_loses_nothing(benches: list[Workbench]) -> None:
    lines = [[3e38] * 4, [1e30, 1.0, -1e30, 3.0], [2.0**-126] * 4, [1e38, 2.0**-126, -1e38, 0]]
    rows = np.array(lines, np.float32)
    desc = _average((1, 4, 1, 4), (1, 4, 1, 1), window_size=(1, 4))
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": rows.reshape(1, 4, 1, 4)})["OutputTensor"].ravel()
        assert got[:3].tolist() == [np.float32(3e38), 1.0, np.float32(2.0**-126)]
        assert abs(float(got[3])) < 2.0**-40 * 1e38


@pytest.mark.parametrize("taps", [3, 7, 49, 250])
def test_float16_averages_are_correctly_rounded(benches: list[Workbench], taps: int) -> None:
    random = np.random.default_rng(taps)
    values = random.integers(0, 0x7C00, (1, 64, 1, taps)).astype(np.uint16)
    values |= (random.integers(0, 2, values.shape) << 15).astype(np.uint16)
    values[:, ::2] = (values[:, ::2] & 0x83FF) | 0x3C00  # many sums halfway between two numbers, and near that
    halves = values.view(np.float16)
    desc = dml.AveragePooling(
        input_tensor=dml.TensorDesc(dml.FLOAT16, halves.shape),
        output_tensor=dml.TensorDesc(dml.FLOAT16, (1, 64, 1, 1)),
        **{**WINDOWS, "window_size": (1, taps)},
        include_padding=True,
    )
    means = [sum(map(Fraction, map(float, row)), Fraction(0)) / taps for row in halves[0, :, 0]]
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": halves})["OutputTensor"].ravel()
        for number, mean in zip(got, means, strict=True):
            neighbours = [number, np.nextafter(number, np.float16(np.inf)), np.nextafter(number, np.float16(-np.inf))]
            errors = [abs(Fraction(float(n)) - mean) for n in neighbours if np.isfinite(n)]
            assert errors[0] == min(errors)


@pytest.mark.combinations
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.INT32, dml.UINT16], ids=str)
@pytest.mark.parametrize("name", ["plain", "padded", "overlapping", "strided", "deep"])
def test_windows_that_share_rows_give_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, name: str, data_type: dml.DataType
) -> None:
    """GPUs go through four windows at once; here through one as well. Rows of the output are no multiple of four."""
    window, stride, start, sizes, strides = {
        "plain": ((2, 2), (2, 2), (0, 0), (3, 4, 22, 12), None),
        "padded": ((3, 3), (2, 2), (1, 1), (1, 3, 19, 16), None),
        "overlapping": ((5, 3), (1, 1), (4, 2), (1, 2, 9, 10), None),
        "strided": ((2, 1), (5, 3), (0, 0), (2, 4, 32, 12), (1, 2, 96, 8)),
        "deep": ((2, 3, 2), (1, 2, 1), (1, 0, 1), (1, 2, 4, 17, 8), None),
    }[name]
    outputs = (
        *sizes[:2],
        *((s + p - w) // step + 1 for s, w, step, p in zip(sizes[2:], window, stride, start, strict=True)),
    )
    of_output = (1, 2, 2 * outputs[1] * outputs[3], 2 * outputs[1]) if strides else None  # channels and batch innermost
    desc = dml.MaxPooling2(
        input_tensor=dml.TensorDesc(data_type, sizes, strides),
        output_tensor=dml.TensorDesc(data_type, outputs, of_output),
        output_indices_tensor=None,
        dilations=(1,) * len(window),
        dimension_count=len(window),
        strides=stride,
        window_size=window,
        start_padding=start,
        end_padding=(0,) * len(window),
    )
    random = np.random.default_rng(3)
    if data_type.is_float:
        x = random.standard_normal(sizes).astype(data_type.numpy_dtype)
        for value in (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-7):
            x[random.random(sizes) < 0.1] = value
        x[0, 0] = np.nan
    else:
        limits = np.iinfo(data_type.numpy_dtype)
        x = random.integers(limits.min, limits.max, sizes, data_type.numpy_dtype, endpoint=True)
    kernel = lower(desc, GPU).steps[0].kernel
    for bench in benches:
        device = bench.device
        at_once = device.compile_operator(device.create_operator(desc))
        with monkeypatch.context() as patch:
            patch.setattr(window_kernels, "_MOST_TAPS_OF_BLOCK", 0)
            assert kernel != lower(desc, GPU).steps[0].kernel
            one_by_one = device.compile_operator(device.create_operator(desc))
        got, expected = (device.run(each, {"InputTensor": x})["OutputTensor"] for each in (at_once, one_by_one))
        assert np.array_equal(got.view(np.uint8), expected.view(np.uint8)), device.info.name


@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=str)
def test_elements_that_are_loaded_ahead_of_many_taps_give_the_same_bits(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, data_type: dml.DataType
) -> None:
    """GPUs load several of a whole window of 77 taps before they add the first; here as well."""
    sizes, outputs = (2, 3, 13, 17), (2, 3, 4, 4)
    desc = dml.AveragePooling1(
        input_tensor=dml.TensorDesc(data_type, sizes),
        output_tensor=dml.TensorDesc(data_type, outputs),
        dilations=(1, 2),
        **{**WINDOWS, "window_size": (11, 7), "start_padding": (1, 2), "end_padding": (0, 1), "strides": (1, 2)},
        include_padding=True,
    )
    x = np.random.default_rng(4).standard_normal(sizes).astype(data_type.numpy_dtype)
    x[0, 0, 2, 3], x[0, 1, 5], x[1, 0, 12, 16] = np.inf, 6e4, np.nan
    if data_type is dml.FLOAT32:
        x[1, 1, 6], x[1, 2, 7] = 3e38, 1e-40
    device = on_llvmpipe(benches)[0].device
    expected = device.run(desc, {"InputTensor": x})["OutputTensor"]
    monkeypatch.setattr(shader_forms, "on_processor", lambda spirv: spirv)
    with dml.Device(device.info.index) as as_gpu:
        made = as_gpu.run(desc, {"InputTensor": x})["OutputTensor"]
    assert made.tobytes() == expected.tobytes()


_WHOLE = (2, 3, 20, 20)
_LAYOUTS = pytest.mark.parametrize("strides", [None, (1200, 1, 60, 3)], ids=["packed", "channels last"])


def _of_whole_input(
    operator: Callable[..., dml.OperatorDesc],
    data_type: dml.DataType,
    strides: tuple[int, ...] | None,
    **more: Any,
) -> dml.OperatorDesc:
    members = {**WINDOWS, "window_size": _WHOLE[2:], **more}
    source, result = dml.TensorDesc(data_type, _WHOLE, strides), dml.TensorDesc(data_type, (2, 3, 1, 1))
    return operator(input_tensor=source, output_tensor=result, **members)


@_LAYOUTS
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.INT8, dml.UINT64], ids=str)
def test_maxima_of_whole_inputs_have_the_bits_of_windows(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    strides: tuple[int, ...] | None,
    data_type: dml.DataType,
) -> None:
    """They are reduced as rows; here as windows as well."""
    random = np.random.default_rng(5)
    x = random.integers(0, 256, (*_WHOLE, data_type.size_in_bits // 8), np.uint8).view(data_type.numpy_dtype)[..., 0]
    if data_type.is_float:
        x[0, 0], x[0, 1] = np.nan, random.choice(np.array([-0.0, np.nan, -np.inf, -1e-7]), _WHOLE[2:])
    desc = _of_whole_input(dml.MaxPooling, data_type, strides)
    for bench in benches:
        got = bench.device.run(desc, {"InputTensor": x})["OutputTensor"]
        with monkeypatch.context() as patch:
            patch.setattr(window_kernels, "_FEWEST_TAPS_OF_ROWS", 2**31)
            with dml.Device(bench.device.info.index) as anew:
                expected = anew.run(desc, {"InputTensor": x})["OutputTensor"]
        assert got.tobytes() == expected.tobytes()


@_LAYOUTS
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16], ids=str)
def test_means_and_norms_of_whole_inputs(
    benches: list[Workbench], strides: tuple[int, ...] | None, data_type: dml.DataType
) -> None:
    """With sums that overflow on their way, that cancel, and that have infinities and NaN."""
    x = np.random.default_rng(6).standard_normal(_WHOLE).astype(data_type.numpy_dtype)
    x[0, 1, :, ::2] = np.finfo(x.dtype).max
    x[0, 2, ::2], x[0, 2, 1::2] = 1.5, -1.5
    x[1, 0, 3, 4], x[1, 1, 5, 6], x[1, 2] = np.inf, np.nan, -0.0
    rows = x.astype(np.longdouble).reshape(2, 3, -1)
    descs = {
        "mean": _of_whole_input(dml.AveragePooling, data_type, strides, include_padding=True),
        "L1": _of_whole_input(dml.LpPooling, data_type, strides, p=1),
        "L2": _of_whole_input(dml.LpPooling, data_type, strides, p=2),
    }
    with np.errstate(over="ignore", invalid="ignore"):
        whole = {"mean": rows.mean(axis=2), "L1": np.abs(rows).sum(axis=2), "L2": np.sqrt((rows**2).sum(axis=2))}
        for bench in benches:
            for name, desc in descs.items():
                got = bench.device.run(desc, {"InputTensor": x})["OutputTensor"].reshape(2, 3)
                expected = whole[name].astype(x.dtype)
                close = np.isclose(got, expected, rtol=1e-3 if x.itemsize == 2 else 2e-7, atol=0, equal_nan=True)
                assert close.all() and not np.signbit(got[1, 2]), (name, got, expected)
