"""Products with packed weights by matrices that subgroups hold together, tried as in test_cooperative_floats.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.products.matrix_tile import PARALLEL, SEQUENTIAL, MatrixTile
from dmlvk.kernels.products.matrix_tiles import FLAT_COOPERATIVE
from tests.operators import test_cooperative_floats
from tests.operators.test_cooperative_floats import imitated
from tests.packed import Product
from tests.targets import on_llvmpipe

__all__ = ["imitated"]


@pytest.mark.parametrize(
    ("come", "case"),
    [(PARALLEL, Product(19, 1088, 70, has_zeros=True)), (SEQUENTIAL, Product(32, 1056, 40, dml.INT4))],
    ids=["zeros", "signed"],
)
def test_results_are_those_of_the_weights(
    benches: list[Workbench],
    monkeypatch: pytest.MonkeyPatch,
    imitated: Callable[[MatrixTile, int], None],
    come: int,
    case: Product,
) -> None:
    imitated(FLAT_COOPERATIVE, come)
    able = dataclasses.replace(test_cooperative_floats.ABLE, has_half_arithmetic=True, shared_memory=32768)
    monkeypatch.setattr(dml.Device, "target", property(lambda _: able))
    device = on_llvmpipe(benches)[0].device
    graph = case.graph(device, flags=dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC)
    assert any(".packed" in step.kernel.variant for step in graph.steps)
    inputs = case.inputs()
    np.testing.assert_allclose(device.run(graph, inputs)["y"], case.expected(inputs), rtol=2e-3, atol=2e-2)
