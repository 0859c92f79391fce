"""What is declared is compiled and tested, and has one name and one lowering."""

from __future__ import annotations

import itertools

import pytest

import dmlvk as dml
from dmlvk.bench.registry import bench_tasks
from dmlvk.bench.tasks import OPERATORS_WITH_TASKS
from dmlvk.conformance.cases import ValueCase, attribute_sets, axes_attributes, sweep_sets, value_cases
from dmlvk.conformance.execution import LAYOUTS, describe, layout_of
from dmlvk.conformance.references.registry import reference
from dmlvk.errors import UnsupportedError
from dmlvk.kernels import lowering, registry
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.target import CPU, GPU
from dmlvk.kernels.variants import (
    ACCESS_ORDERS,
    CONVERSION_VARIANT_NAME,
    lanes,
    lookup_variant_name,
    regular_variants,
)
from dmlvk.operators import OPERATORS, FeatureLevel, check_operator
from scripts.shader_tools.project import SHADERS
from tests.targets import kernel_of

OWN = "element_wise_round_bfloat16"
"""An element-wise operator of dmlvk's own."""


def _kernels_of(case: ValueCase) -> set[str]:
    """Variants that a case can lower to: each access order, with the optional attributes and without."""
    names = set()
    if case.desc_class.declaration.pattern == "rows":
        for length in (5, 5000):
            desc = describe(case, (30, length), [(length, 1)] * 2, axes_attributes(case.desc_class, (1,)))
            names |= {kernel_of(desc, target).variant for target in (CPU, GPU)}
        return names
    for layout, optional in itertools.product(LAYOUTS, (False, True)):
        sets = sweep_sets(case.desc_class, case.data_types[0][1], optional)[:1]
        if any(field.fusable for field in case.desc_class.fields):
            sets = attribute_sets(case.desc_class, case.data_types[0][1])
        for attributes in sets:
            sizes, strides = layout_of(case, layout, 1000)
            desc = describe(case, sizes, strides, attributes)
            check_operator(desc, FeatureLevel.LEVEL_6_4)
            names.add(kernel_of(desc).variant)
    return names


def test_declared_and_tested_are_the_same() -> None:
    tested = set().union(*(_kernels_of(case) for case in value_cases()))
    tested |= {lookup_variant_name(access_order) for access_order in ACCESS_ORDERS}  # in test_lookup.py
    tested.add(CONVERSION_VARIANT_NAME)  # in test_half_trial.py
    tested |= {variant.name for variant in regular_variants() if variant.name.startswith(OWN)}  # test_round_bfloat16.py
    regular = {variant.name for variant in regular_variants()}  # all others are tried by samples
    assert tested == regular, f"untested {sorted(regular - tested)}, undeclared {sorted(tested - regular)}"


def test_case_names_are_unique() -> None:
    names = [case.name for case in value_cases()]
    assert len(set(names)) == len(names)


def test_variant_names_are_unique_and_sorted() -> None:
    variants = all_variants()
    names = [variant.name for variant in variants]
    assert names == sorted(set(names))
    contents = {(variant.source, variant.defines) for variant in variants}
    assert len(contents) == len(variants), "two variants are the same shader"
    for variant in variants:
        assert (SHADERS / variant.source).is_file(), variant
        assert len(dict(variant.defines)) == len(variant.defines), f"{variant.name} defines a macro twice"


def test_a_packed_invocation_owns_whole_words() -> None:
    """8- and 16-bit results share words: an invocation that stores a word must own all its elements."""
    for case in value_cases():
        types = tuple(data_type for _, data_type in case.data_types)
        count = lanes("contiguous", types)
        assert count in (2, 4, 8, 16), case.name
        assert count * types[-1].size_in_bits % 32 == 0, case.name
        assert max(data_type.size_in_bits for data_type in types) * count >= 128, case.name


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
