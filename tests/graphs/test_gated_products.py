"""Two products with packed weights, of which one is the other's gate, have the bits of their operators one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk import functions as F
from tests.packed import by_rows, dequantized, random_integers
from tests.targets import computes_as_gpu, variants_of

COLUMNS, BLOCK = 40, 32
pytestmark = pytest.mark.every_driver  # one driver skips them


def _gated(
    device: dml.Device, types: tuple[dml.DataType, dml.DataType], size: tuple[int, int], *, has_zero: bool, **given: Any
) -> dml.CompiledGraph:
    graph = dml.Graph(device)
    x = graph.input("x", types[0], size)
    sizes, blocks = (COLUMNS, size[1]), (COLUMNS, size[1] // BLOCK)
    gate, up = (by_rows(x, dequantized(graph, name, types, sizes, blocks, has_zero)) for name in ("gate", "up"))
    y = F.activation_swish(gate, sigmoid_input_scale=given.pop("scale", 1.0)) * up
    shown: dict[str, Any] = {"gate": gate} if given.pop("shows_gate", False) else {}
    return graph.compile(y=y, **shown, **given)


def _inputs(graph: dml.CompiledGraph, seed: int) -> dict[str, npt.NDArray[Any]]:
    random, made = np.random.default_rng(seed), {}
    for point, tensor in zip(graph.inputs, graph.input_tensors, strict=True):
        assert tensor is not None
        if tensor.data_type in (dml.FLOAT16, dml.FLOAT32):
            values = random.standard_normal(tensor.sizes) / (64 if point.name.endswith(".s") else 1)
            made[point.name] = values.astype(tensor.data_type.numpy_dtype)
        else:
            made[point.name] = random_integers(random, tensor.data_type, tensor.sizes)
    return made


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
    fused, single = (_gated(device, (data_type, integer), size, has_zero=has_zero, fuse=fuse) for fuse in (True, False))
    inputs = _inputs(fused, sum(size))
    inputs["gate.s"][2, 0], inputs["up.s"][5, 1], inputs["x"][0, 7] = 6e-8, np.inf, 6e-8
    with np.errstate(all="ignore"):
        results = [device.run(graph, inputs)["y"] for graph in (fused, single)]
    *planes, product = variants_of(fused)  # of many rows, which are made planes before
    assert len(planes) == (size[0] > 4 and data_type is dml.FLOAT16)
    assert ".gated" in product
    assert results[0].tobytes() == results[1].tobytes(), np.argwhere(results[0] != results[1])[:4]


@pytest.mark.parametrize("given", [{"scale": 2.0}, {"shows_gate": True}])
def test_what_is_no_such_gate_or_is_shown_is_computed_apart(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    """Another scale of SWISH, and a gate that is an output of the graph."""
    computes_as_gpu(monkeypatch, device, registers=256)
    graph = _gated(device, (dml.FLOAT16, dml.UINT4), (1, 96), has_zero=False, **given)
    assert not any(".gated" in variant for variant in variants_of(graph))
