"""Products of few rows with packed weights by matrices that subgroups hold together: who gets them, and what they give.

No processor here has such matrices: the kernels run with a file in the place of the include that names them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels import library
from dmlvk.kernels.products.block_matrices import GATED, PLAIN, SPLIT, multiplies, variants
from dmlvk.kernels.products.block_weights import weights_of
from dmlvk.operators.quantization import Dequantize
from tests.cooperative_modules import ABLE, device_with_matrices, imitate_matrices
from tests.kernels.test_limits import shared_memory
from tests.operators.test_cooperative_attention import VARIANTS as TRIALS
from tests.operators.test_products import gemm_desc
from tests.packed import Product

_VARIANTS = {variant.name: variant for variant in variants()}
_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC
_ABLE = dataclasses.replace(ABLE, has_half_arithmetic=True, shared_memory=32768)


@pytest.fixture
def imitated(monkeypatch: pytest.MonkeyPatch) -> None:
    imitate_matrices(monkeypatch, {**_VARIANTS, **TRIALS})
    monkeypatch.setattr(dml.Device, "target", property(lambda _: _ABLE))


_CASES = {
    "zeros": Product(19, 1152, 70, has_zeros=True),
    "signed": Product(5, 256, 300, dml.INT4),
    "a gate": Product(32, 640, 150, is_gated=True),
    "a gate with zeros": Product(8, 1152, 24, has_zeros=True, is_gated=True),
    "subgroups share terms": Product(7, 2048, 71, has_zeros=True),
    "subgroups share terms of signed weights": Product(8, 1024, 40, dml.INT4),
}


@pytest.mark.parametrize(
    ("name", "in_registers"),
    [
        ("zeros", True),
        pytest.param("signed", True, marks=pytest.mark.sweep),
        pytest.param("a gate", True, marks=pytest.mark.sweep),
        pytest.param("a gate with zeros", False, marks=pytest.mark.sweep),
        pytest.param("subgroups share terms", True, marks=pytest.mark.sweep),
        ("subgroups share terms of signed weights", False),
    ],
    ids=str,
)
def test_results_are_those_of_the_weights(
    benches: list[Workbench], imitated: None, name: str, in_registers: bool
) -> None:
    case = _CASES[name]
    with device_with_matrices(benches, in_registers=in_registers) as device:
        graph = case.graph(device, flags=_ALLOWED)
        has_sums = "share" not in name  # of what is behind one another, by a kernel of their own
        assert [".matrices." in step.kernel.variant for step in graph.steps] == [True, False][: 1 + has_sums]
        inputs = case.inputs()
        found, expected = device.run(graph, inputs)["y"].astype(np.float64), case.expected(inputs)
        if case.is_gated:
            np.testing.assert_allclose(found, expected, rtol=4e-3, atol=2e-2)
            return
        magnitudes = np.abs(inputs["x"].astype(np.float64)) @ np.abs(case.numbers(inputs)).T
        allowed = (case.terms + 2) * 2.0**-24 * magnitudes + 2.0**-11 * np.abs(expected)
        assert (np.abs(found - expected) <= allowed).all(), (
            f"by {np.max(np.abs(found - expected) / allowed):.2f} of that"
        )


@pytest.mark.parametrize("name", ["subgroups share terms of signed weights", "signed"])
def test_what_is_not_finite_stays_in_its_row(benches: list[Workbench], imitated: None, name: str) -> None:
    case = _CASES[name]
    with device_with_matrices(benches, in_registers=True) as device:
        inputs = case.inputs()
        graph = case.graph(device, flags=_ALLOWED)
        clean = device.run(graph, inputs)["y"]
        inputs["x"][1, 3], inputs["x"][2, 5], inputs["x"][3, [7, 9]] = np.inf, np.nan, (np.inf, -np.inf)
        found = device.run(graph, inputs)["y"]
        with np.errstate(invalid="ignore"):
            expected = case.expected(inputs)
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        assert np.array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])
        others = [row for row in range(case.rows) if row not in (1, 2, 3)]
        assert np.array_equal(found[others], clean[others])


def _is_for(case: Product, **lacking: Any) -> bool:
    transposed = {"trans_b": dml.MatrixTransform.TRANSPOSE}
    desc = gemm_desc(dml.FLOAT16, case.rows, case.terms, case.columns, **transposed)
    blocks = (case.columns, case.terms // case.block)
    numbers = Dequantize(
        input_tensor=dml.TensorDesc(case.integer, (case.columns, case.terms)),
        quantization_type=dml.QuantizationType.SCALE,
        quantization_tensor_count=1,
        quantization_tensors=(dml.TensorDesc(dml.FLOAT16, blocks),),
        output_tensor=dml.TensorDesc(dml.FLOAT16, (case.columns, case.terms)),
    )
    weights = weights_of(numbers, desc)
    assert weights is not None
    return multiplies(desc, weights, dataclasses.replace(_ABLE, **lacking), is_gated=case.is_gated)


def test_they_are_for_few_rows_of_devices_that_have_all_of_it() -> None:
    assert all(_is_for(case) for case in _CASES.values())
    for case in (Product(1, 256, 64), Product(33, 256, 64), Product(8, 192, 64), Product(8, 256, 64, dml.INT8)):
        assert not _is_for(case), case
    for lacking in (
        {"device_arithmetic": False},
        {"has_cooperative_halves": False},
        {"has_half_arithmetic": False},
        {"subgroup_size": 64},
        {"buffers": 6},
        {"shared_memory": 8192},
        {"work_group_size": 128},
    ):
        assert not _is_for(Product(8, 256, 64), **lacking), lacking
    assert not _is_for(Product(8, 256, 64, is_gated=True), buffers=9)


def test_modules_have_the_shared_memory_that_is_asked_for() -> None:
    for is_gated, tiles in ((False, (SPLIT, *PLAIN)), (True, GATED)):
        for tile in tiles:
            assert shared_memory(library.load(tile.variant(is_gated=is_gated).name)) == tile.shared_memory, tile
