"""A function says itself of which descriptions it makes programs: each operator has one, or its pattern has."""

from __future__ import annotations

import pytest

import dmlvk as dml
from dmlvk.bench.registry import bench_tasks
from dmlvk.bench.tasks import OPERATORS_WITH_TASKS
from dmlvk.conformance.references.registry import reference
from dmlvk.errors import UnsupportedError
from dmlvk.kernels import lowering, registry
from dmlvk.kernels.target import GPU
from dmlvk.operators import OPERATORS
from tests.targets import kernel_of


def test_every_operator_has_a_lowering() -> None:
    assert lowering.lower is registry.lower
    lacking = [
        name
        for name, desc_class in OPERATORS.items()
        if name not in registry._BY_OPERATOR and desc_class.declaration.pattern not in registry.LOWERINGS
    ]
    assert not lacking


def test_a_missing_lowering_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (4,))
    desc = dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor)
    assert kernel_of(desc)
    monkeypatch.delitem(registry.LOWERINGS, "elementwise")
    with pytest.raises(
        UnsupportedError, match=r"^ELEMENT_WISE_ABS: lowering: there is none in dmlvk/kernels, nor for "
    ):
        registry.lower(desc, GPU)


def test_no_operator_has_two() -> None:
    with pytest.raises(ValueError, match=r"^GEMM: lowering: dmlvk\.kernels\.products\.exact_products has one already$"):
        registry.lowering(dml.Gemm)(lowering.lower)
    with pytest.raises(ValueError, match=r"^rows: lowering: dmlvk\.kernels\.rows\.along_axes has one already$"):
        registry.pattern_lowering("rows")(lowering.lower)
    with pytest.raises(
        ValueError, match=r"^GEMM: reference: dmlvk\.conformance\.references\.products has one already$"
    ):
        reference("GEMM")(lowering.lower)
    assert "GEMM" in OPERATORS_WITH_TASKS
    with pytest.raises(ValueError, match=r"^GEMM: bench task: dmlvk\.bench\.tasks has one already$"):
        bench_tasks("GEMM")(lambda: iter(()))
