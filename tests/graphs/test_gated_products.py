"""Two products with packed weights, of which one is the other's gate, have the bits of their operators one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from tests.packed import Product
from tests.targets import computes_as_gpu, variants_of

pytestmark = pytest.mark.every_driver  # one driver skips them


@pytest.mark.parametrize("size", [(1, 2080), (2, 1152), (9, 160)], ids=["1 row", "2 rows", "9 rows"])
@pytest.mark.parametrize("has_zero", [False, True], ids=["without zero points", "zero points"])
@pytest.mark.parametrize("integer", [dml.UINT4, dml.INT8], ids=lambda integer: integer.name)
@pytest.mark.parametrize("data_type", [dml.FLOAT16, dml.FLOAT32], ids=lambda data_type: data_type.name)
def test_a_gated_product_is_one_kernel_with_the_bits_of_four(
    device: dml.Device,
    monkeypatch: pytest.MonkeyPatch,
    data_type: dml.DataType,
    integer: dml.DataType,
    has_zero: bool,
    size: tuple[int, int],
) -> None:
    """All types, few rows and several, sums of several segments; denormals and infinities among the operands."""
    computes_as_gpu(monkeypatch, device, registers=256)
    case = Product(*size, 40, integer, number=data_type, has_zeros=has_zero, is_gated=True)
    fused, single = (case.graph(device, fuse=fuse) for fuse in (True, False))
    inputs = case.inputs(sum(size))
    inputs["gate.s"][2, 0], inputs["w.s"][5, 1], inputs["x"][0, 7] = 6e-8, np.inf, 6e-8
    with np.errstate(all="ignore"):
        results = [device.run(graph, inputs)["y"] for graph in (fused, single)]
    *planes, product = variants_of(fused)  # of many rows, which are made planes before
    assert len(planes) == (size[0] > 4 and data_type is dml.FLOAT16)
    assert ".gated" in product
    assert results[0].tobytes() == results[1].tobytes(), np.argwhere(results[0] != results[1])[:4]


@pytest.mark.parametrize(("scale", "is_shown"), [(2.0, False), (1.0, True)])
def test_what_is_no_such_gate_or_is_shown_is_computed_apart(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, scale: float, is_shown: bool
) -> None:
    """Another scale of SWISH, and a gate that is an output of the graph."""
    computes_as_gpu(monkeypatch, device, registers=256)
    graph = dml.Graph(device)
    gate, up = Product(1, 96, 40, is_gated=True).products(graph)
    outputs: dict[str, Any] = {
        "y": F.activation_swish(gate, sigmoid_input_scale=scale) * up,
        **({"gate": gate} if is_shown else {}),
    }
    assert not any(".gated" in variant for variant in variants_of(graph.compile(**outputs)))
