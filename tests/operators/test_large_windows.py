"""Windows of more elements than llvmpipe's loops have turns, which several launches take.

llvmpipe ends loops, unasked, when an invocation has been through 65535 turns in all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.operators import OPERATORS

WINDOWS = ((300, 300), (66000, 1), (1, 66000))
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


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_averages_take_all_of_a_large_window(benches: list[Workbench], window: tuple[int, int]) -> None:
    values = _values(window)
    got = _pooled(benches, "AVERAGE_POOLING", values, window, include_padding=False)
    assert np.allclose(got.ravel(), values.mean((2, 3), np.float64).ravel(), rtol=CLOSE, atol=0)


def test_averages_of_half_precision_whose_words_hold_two_windows(benches: list[Workbench]) -> None:
    values = _values((200, 200), np.float16, 3)
    got = _pooled(benches, "AVERAGE_POOLING", values, (200, 200), include_padding=False)
    assert np.allclose(got.ravel(), values.mean((2, 3), np.float64).ravel(), rtol=2.0**-10, atol=0)


def test_averages_over_padding_of_overlapping_large_windows(benches: list[Workbench]) -> None:
    values = _values((299, 300))
    members = {"include_padding": True, "start_padding": (1, 1), "end_padding": (1, 0)}
    got = _pooled(benches, "AVERAGE_POOLING", values, (300, 300), **members)
    padded = np.pad(values.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 0)))
    means = [
        [padded[..., row : row + 300, column : column + 300].mean((2, 3)) for column in range(2)] for row in range(2)
    ]
    assert np.allclose(got, np.moveaxis(np.array(means), (0, 1), (2, 3)), rtol=CLOSE, atol=0)


@pytest.mark.parametrize("factor", [2.0**100, 2.0**-110], ids=["large", "small"])
def test_large_windows_whose_elements_must_be_scaled(benches: list[Workbench], factor: float) -> None:
    values = _values((300, 300)) * np.float32(factor)
    exact = values.astype(np.float64)
    averages = _pooled(benches, "AVERAGE_POOLING", values, (300, 300), include_padding=False)
    assert np.allclose(averages.ravel(), exact.mean((2, 3)).ravel(), rtol=CLOSE, atol=0)
    norms = _pooled(benches, "LP_POOLING", values, (300, 300), p=2)
    assert np.allclose(norms.ravel(), np.sqrt((exact**2).sum((2, 3))).ravel(), rtol=CLOSE, atol=0)


@pytest.mark.parametrize(
    ("specials", "expected"),
    [((np.inf,), np.inf), ((-np.inf,), -np.inf), ((-np.inf, np.inf), np.nan), ((np.nan,), np.nan)],
    ids=["infinity", "negative", "both", "nan"],
)
def test_infinities_at_either_end_of_a_large_window(
    benches: list[Workbench], specials: tuple[float, ...], expected: float
) -> None:
    values = _values((300, 300), channels=1)
    values.ravel()[[0, -1][-len(specials) :]] = specials
    got = _pooled(benches, "AVERAGE_POOLING", values, (300, 300), include_padding=False)
    assert np.array_equal(got.ravel(), np.array([expected], np.float32), equal_nan=True)


@pytest.mark.combinations
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_norms_take_all_of_a_large_window(benches: list[Workbench], window: tuple[int, int], p: int) -> None:
    values = _values(window) - np.float32(100)
    got = _pooled(benches, "LP_POOLING", values, window, p=p)
    exact = (np.abs(values.astype(np.float64)) ** p).sum((2, 3)) ** (1 / p)
    assert np.allclose(got.ravel(), exact.ravel(), rtol=2.0**-20 if p > 2 else CLOSE, atol=0)


@pytest.mark.combinations
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("window", WINDOWS, ids=str)
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
