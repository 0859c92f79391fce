"""Functions of products, convolutions and pools need no more words than DirectMLX's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F

RANDOM = np.random.default_rng(5)


def test_a_product_needs_two_matrices(any_device: dml.Device) -> None:
    a, b = (RANDOM.integers(-8, 8, sizes).astype(np.float32) for sizes in ((3, 4), (4, 5)))
    graph = dml.Graph(any_device)
    model = graph.compile(y=F.gemm(graph.input("a", dml.FLOAT32, (3, 4)), graph.input("b", dml.FLOAT32, (4, 5))))
    assert np.array_equal(any_device.run(model, {"a": a, "b": b})["y"], a @ b)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_convolution_has_strides_of_one_and_no_padding(any_device: dml.Device, axes: int) -> None:
    x = RANDOM.integers(-8, 8, (1, 2, *(5, 4, 3)[:axes])).astype(np.float32)
    weights = RANDOM.integers(-8, 8, (3, 2, *(1,) * axes)).astype(np.float32)
    graph = dml.Graph(any_device)
    source, filters = graph.input("x", dml.FLOAT32, x.shape), graph.input("w", dml.FLOAT32, weights.shape)
    model = graph.compile(y=F.convolution(source, filters))
    expected = np.einsum("nc...,oc->no...", x, weights.reshape(3, 2))
    assert np.array_equal(any_device.run(model, {"x": x, "w": weights})["y"], expected)


def test_a_pool_needs_a_window(any_device: dml.Device) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    graph = dml.Graph(any_device)
    model = graph.compile(y=F.max_pooling(graph.input("x", dml.FLOAT32, x.shape), window_size=(2, 2), strides=(2, 2)))
    assert np.array_equal(any_device.run(model, {"x": x})["y"], [[[[5, 7], [13, 15]]]])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int64])
def test_a_reduction_keeps_the_data_type_and_indices_are_uint32(any_device: dml.Device, dtype: Any) -> None:
    x: npt.NDArray[Any] = RANDOM.integers(-8, 8, (3, 5)).astype(dtype)
    graph = dml.Graph(any_device)
    source = graph.input("x", dml.DataType[np.dtype(dtype).name.upper()], x.shape)
    total, largest, index = (
        F.reduce(source, function, axes=[1])
        for function in (dml.ReduceFunction.SUM, dml.ReduceFunction.MAX, dml.ReduceFunction.ARGMAX)
    )
    model = graph.compile(SUM=total, MAX=largest, ARGMAX=index)
    found = any_device.run(model, {"x": x})
    assert {name: each.dtype for name, each in found.items()} == {"SUM": dtype, "MAX": dtype, "ARGMAX": np.uint32}
    expected = {"SUM": x.sum(1), "MAX": x.max(1), "ARGMAX": x.argmax(1)}
    assert all(np.array_equal(found[name][:, 0], each) for name, each in expected.items())
