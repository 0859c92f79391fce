"""Functions of products, convolutions and pools need no more words than DirectMLX's."""

from __future__ import annotations

import numpy as np
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
