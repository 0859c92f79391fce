"""Pooling and its gradients: what averages promise, shared loads, windows of more elements than loops have turns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references.registry import REFERENCES
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import GPU
from dmlvk.kernels.windows import window as window_kernels
from dmlvk.operators import OPERATORS
from dmlvk.runtime import shader_forms
from tests.operators.differences import differences
from tests.targets import on_llvmpipe

WINDOWS: dict[str, Any] = {
    "dimension_count": 2,
    "strides": (1, 1),
    "window_size": (2, 2),
    "start_padding": (0, 0),
    "end_padding": (0, 0),
}


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
    operator: Callable[..., dml.OperatorDesc], data_type: dml.DataType, strides: tuple[int, ...] | None, **more: Any
) -> dml.OperatorDesc:
    members = {**WINDOWS, "window_size": _WHOLE[2:], **more}
    source, result = dml.TensorDesc(data_type, _WHOLE, strides), dml.TensorDesc(data_type, (2, 3, 1, 1))
    return operator(input_tensor=source, output_tensor=result, **members)


@_LAYOUTS
@pytest.mark.parametrize("data_type", [dml.FLOAT32, dml.FLOAT16, dml.INT8, dml.UINT64], ids=str)
def test_maxima_of_whole_inputs_have_the_bits_of_windows(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, strides: tuple[int, ...] | None, data_type: dml.DataType
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


def run(bench: Workbench, desc: dml.OperatorDesc, **inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    (result,) = bench.device.run(desc, inputs).values()
    return result


def test_gradients_of_maxima_are_the_differences_of_the_forward_operator(benches: list[Workbench]) -> None:
    """In float64, where no maximum is near to another element of its window."""
    sizes, windows = (1, 2, 5, 4, 6), (1, 2, 2, 3, 3)
    members: dict[str, Any] = {
        "dimension_count": 3, "strides": (2, 1, 2), "window_size": (3, 2, 2), "dilations": (2, 2, 3),
        "start_padding": (1, 0, 1), "end_padding": (1, 1, 1),
    }  # fmt: skip
    source, maxima = dml.TensorDesc(dml.FLOAT32, sizes), dml.TensorDesc(dml.FLOAT32, windows)
    forward = dml.MaxPooling2(input_tensor=source, output_tensor=maxima, output_indices_tensor=None, **members)
    desc = dml.MaxPoolingGrad(
        input_tensor=source, input_gradient_tensor=maxima, output_gradient_tensor=source, **members
    )
    random = np.random.default_rng(7)
    x = random.permutation(source.element_count).reshape(sizes).astype(np.float32)
    gradients = random.standard_normal(windows).astype(np.float32)

    def loss(values: npt.NDArray[np.float64]) -> float:
        maxima_of_values = REFERENCES[forward.operator_name](forward, {"InputTensor": values})["OutputTensor"]
        return float(np.sum(gradients * np.asarray(maxima_of_values)))  # of FLOAT64, as differences need

    expected = differences(loss, x)
    assert np.count_nonzero(expected) > 10
    for bench in benches:
        got = run(bench, desc, InputTensor=x, InputGradientTensor=gradients)
        assert np.allclose(got, expected, rtol=0, atol=1e-6), bench.device.info.name


LARGE_WINDOWS = ((300, 300), (66000, 1), (1, 66000))

CLOSE = 2.0**-23

Values = npt.NDArray[Any]


def _pooled(benches: list[Workbench], name: str, values: Values, window: tuple[int, ...], **members: Any) -> Values:
    """The first output of one window for each channel, the same on all devices."""
    return _pooled_with_indices(benches, name, values, window, **members)[0]


def _pooled_with_indices(
    benches: list[Workbench], name: str, values: Values, window: tuple[int, ...], **members: Any
) -> list[Values]:
    data_type = dml.DataType(values.dtype)
    padding = {"start_padding": (0, 0), "end_padding": (0, 0)}
    members = {**padding, **members}
    padded = np.add(values.shape[2:], np.add(members["start_padding"], members["end_padding"]))
    positions = (padded - np.array(window) + 1).tolist()
    sizes = (*values.shape[:2], *positions)
    tensors = {"output_tensor": dml.TensorDesc(data_type, sizes)}
    if name == "MAX_POOLING2":
        tensors["output_indices_tensor"] = dml.TensorDesc(dml.UINT64, sizes)
        members["dilations"] = (1, 1)
    desc_class: Any = OPERATORS[name]
    desc = desc_class(
        input_tensor=dml.TensorDesc(data_type, values.shape),
        dimension_count=2,
        window_size=window,
        strides=(1, 1),
        **members,
        **tensors,
    )
    results = [list(bench.device.run(desc, {"InputTensor": values}).values()) for bench in benches]
    for other in results[1:]:
        for one, another in zip(results[0], other, strict=True):
            assert one.tobytes() == another.tobytes()
    return results[0]


def _values(window: tuple[int, ...], dtype: Any = np.float32, channels: int = 2) -> Values:
    return np.random.default_rng(1).uniform(0, 255, (1, channels, *window)).astype(dtype)


@pytest.mark.parametrize("window", LARGE_WINDOWS, ids=str)
def test_averages_take_all_of_a_large_window(benches: list[Workbench], window: tuple[int, int]) -> None:
    values = _values(window)
    got = _pooled(benches, "AVERAGE_POOLING", values, window, include_padding=False)
    assert np.allclose(got.ravel(), values.mean((2, 3), np.float64).ravel(), rtol=CLOSE, atol=0)


def test_averages_over_padding_of_overlapping_large_windows(benches: list[Workbench]) -> None:
    values = _values((299, 300))
    members = {"include_padding": True, "start_padding": (1, 1), "end_padding": (1, 0)}
    got = _pooled(benches, "AVERAGE_POOLING", values, (300, 300), **members)
    padded = np.pad(values.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 0)))
    means = [
        [padded[..., row : row + 300, column : column + 300].mean((2, 3)) for column in range(2)] for row in range(2)
    ]
    assert np.allclose(got, np.moveaxis(np.array(means), (0, 1), (2, 3)), rtol=CLOSE, atol=0)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("window", LARGE_WINDOWS, ids=str)
def test_norms_take_all_of_a_large_window(benches: list[Workbench], window: tuple[int, int], p: int) -> None:
    values = _values(window) - np.float32(100)
    got = _pooled(benches, "LP_POOLING", values, window, p=p)
    exact = (np.abs(values.astype(np.float64)) ** p).sum((2, 3)) ** (1 / p)
    assert np.allclose(got.ravel(), exact.ravel(), rtol=2.0**-20 if p > 2 else CLOSE, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("window", LARGE_WINDOWS, ids=str)
def test_maxima_may_lie_anywhere_in_a_large_window(
    benches: list[Workbench], window: tuple[int, int], dtype: Any
) -> None:
    values = _values(window, dtype, 3) // dtype(2)
    elements = math.prod(window)
    flat = values.reshape(3, elements)
    if dtype is np.int64:
        flat -= 1 << 40
    flat[0, 0] = flat[1, elements - 1] = flat[2, 40000] = 200 if dtype is not np.int64 else -3
    flat[2, 50000] = flat[2, 40000]  # of equal ones the first
    got, positions = _pooled_with_indices(benches, "MAX_POOLING2", values, window)
    assert np.array_equal(got.ravel(), flat.max(1))
    assert positions.ravel().tolist() == (flat.argmax(1) + np.arange(3) * elements).tolist()


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [((1, 14000, 1, 1), np.float32, 2.0**-20), ((1, 1, 11100, 1), np.float16, 2.0**-10)],
    ids=["channels", "area"],
)
def test_local_responses_over_many_elements(
    benches: list[Workbench], shape: tuple[int, ...], dtype: Any, error: float
) -> None:
    size = 2 * math.prod(shape) + 1
    values = np.random.default_rng(2).uniform(-4, 4, shape).astype(dtype)
    tensor = dml.TensorDesc(dml.DataType(values.dtype), shape)
    members: dict[str, Any] = {"local_size": size, "alpha": 2.0, "beta": 0.75, "bias": 1.0}
    desc = dml.LocalResponseNormalization(
        input_tensor=tensor, output_tensor=tensor, cross_channel=dtype is np.float32, **members
    )
    exact = values / (1.0 + 2.0 / size * (values.astype(np.float64) ** 2).sum()) ** 0.75
    results = [bench.device.run(desc, {"InputTensor": values})["OutputTensor"] for bench in benches]
    for got in results:
        assert np.allclose(got, exact, rtol=error, atol=0)
        assert got.tobytes() == results[0].tobytes()
