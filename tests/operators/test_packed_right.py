"""Products with packed weights by matrices that subgroups hold together, tried as in test_cooperative_floats.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.products.matrix_tile import PARALLEL, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import FLAT_COOPERATIVE
from tests.operators import test_cooperative_floats
from tests.operators.test_cooperative_floats import imitated
from tests.operators.test_products import on_llvmpipe
from tests.packed import by_rows, dequantized

__all__ = ["imitated"]

_BLOCK = 32


def _graph(
    device: dml.Device, shape: tuple[int, int, int], data_type: dml.DataType, *, has_zeros: bool
) -> dml.CompiledGraph:
    rows, terms, columns = shape
    graph = dml.Graph(device)
    types = dml.FLOAT16, data_type
    numbers = dequantized(graph, "weights", types, (columns, terms), (columns, terms // _BLOCK), has_zeros)
    y = by_rows(graph.input("x", dml.FLOAT16, (rows, terms)), numbers)
    return graph.compile(flags=dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC, y=y)


@pytest.mark.parametrize(
    ("come", "shape", "data_type", "has_zeros"),
    [(PARALLEL, (19, 1088, 70), dml.UINT4, True), (SEQUENTIAL, (32, 1056, 40), dml.INT4, False)],
    ids=["zeros", "signed"],
)
def test_results_are_those_of_the_weights(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    imitated: Callable[[MatrixTile, int], None],
    come: int,
    shape: tuple[int, int, int],
    data_type: dml.DataType,
    has_zeros: bool,
) -> None:
    imitated(FLAT_COOPERATIVE, come)
    able = dataclasses.replace(test_cooperative_floats.ABLE, has_half_arithmetic=True, shared_memory=32768)
    monkeypatch.setattr(dml.Device, "target", property(lambda _: able))
    device = on_llvmpipe(benches)[0].device
    graph = _graph(device, shape, data_type, has_zeros=has_zeros)
    assert any(".packed" in step.kernel.variant for step in graph.steps)
    rng, (rows, terms, columns) = np.random.default_rng(3), shape
    low = 0 if data_type is dml.UINT4 else -8
    feed: dict[str, npt.NDArray[Any]] = {
        "weights": rng.integers(low, low + 16, (columns, terms)).astype(np.int8 if low else np.uint8),
        "weights.s": rng.uniform(0.01, 0.1, (columns, terms // _BLOCK)).astype(np.float16),
        "x": rng.standard_normal((rows, terms)).astype(np.float16),
    }
    zeros = np.zeros((columns, terms // _BLOCK), np.int8)
    if has_zeros:
        zeros = rng.integers(low, low + 16, zeros.shape).astype(np.int8)
        feed["weights.z"] = zeros.astype(feed["weights"].dtype)
    of_terms = [np.repeat(array, _BLOCK, axis=1) for array in (zeros, feed["weights.s"])]
    numbers = ((feed["weights"].astype(np.float32) - of_terms[0]) * of_terms[1].astype(np.float32)).astype(np.float16)
    expected = feed["x"].astype(np.float64) @ numbers.T.astype(np.float64)
    np.testing.assert_allclose(device.run(graph, feed)["y"], expected, rtol=2e-3, atol=2e-2)
