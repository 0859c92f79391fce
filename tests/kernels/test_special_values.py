"""What a pipeline knows before it is made: attributes with special values, facts of shaders."""

from __future__ import annotations

import itertools
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.conformance.cases import attribute_sets, value_cases
from dmlvk.conformance.execution import LAYOUTS, describe, layout_of
from dmlvk.datatypes import float32_bits
from dmlvk.kernels import library
from dmlvk.kernels.kernel import Kernel
from dmlvk.kernels.library.facts import FILE_NAME, Facts, facts_of, facts_text, read_facts
from dmlvk.kernels.special_values import SPECIAL_ATTRIBUTE, SPECIAL_VALUES, special_attribute
from dmlvk.kernels.target import CPU, GPU
from dmlvk.kernels.variants import regular_variants
from dmlvk.operators import OPERATORS, FusedActivation, OperatorDesc
from dmlvk.spirv.modules import with_constant
from dmlvk.spirv.specialization import specialized
from dmlvk.spirv.volume import LONG_FUNCTION_WORDS, called_words
from tests.graphs.support import X, fused
from tests.targets import kernel_of

ANY_VALUE = 1.75  # Of an attribute; special for no operator

X_DESC = dml.TensorDesc(dml.FLOAT32, (4, 6))


def desc_of(operator: str, value: float, data_type: dml.DataType = dml.FLOAT32) -> OperatorDesc:
    tensor = dml.TensorDesc(data_type, (4, 6))
    made = OPERATORS[operator]
    tensors = {field.attribute: None if field.optional else tensor for field in made.fields if field.type == "tensor"}
    others = {field.attribute: None for field in made.fields if field.optional}
    return made(**{**others, **tensors, SPECIAL_VALUES[operator][0]: value})


def fused_desc(operator: str, value: float) -> OperatorDesc:
    """The same as the activation that is fused into a sum."""
    activation = FusedActivation(OPERATORS[operator], **{SPECIAL_VALUES[operator][0]: value})
    return dml.ElementWiseAdd1(a_tensor=X_DESC, b_tensor=X_DESC, output_tensor=X_DESC, fused_activation=activation)


def in_the_module(kernel: Kernel, directory: Path) -> list[str]:
    """The constant as SPIRV-Tools show it."""
    (directory / "shader.spv").write_bytes(kernel.spirv())
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", directory / "shader.spv"], check=True)
    command = ["spirv-dis", "--raw-id", str(directory / "shader.spv")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    (name,) = [line.split()[1] for line in lines if f" SpecId {SPECIAL_ATTRIBUTE}" in line]
    return [line.split()[-1] for line in lines if line.split()[:1] == [name]]


EVERY_VALUE = [(operator, value) for operator, (_, values) in SPECIAL_VALUES.items() for value in values]


@pytest.mark.parametrize(("operator", "value"), EVERY_VALUE)
def test_the_shader_is_told_of_a_special_value(operator: str, value: float, tmp_path: Path) -> None:
    for data_type in (dml.FLOAT32, dml.FLOAT16):
        assert in_the_module(kernel_of(desc_of(operator, value, data_type)), tmp_path) == [str(float32_bits(value))]
        assert in_the_module(kernel_of(desc_of(operator, ANY_VALUE, data_type)), tmp_path) == ["0"]


@pytest.mark.parametrize("operator", ["ACTIVATION_CELU", "ACTIVATION_ELU", "ACTIVATION_SOFTPLUS"])
def test_a_fused_activation_has_its_special_values(operator: str, tmp_path: Path) -> None:
    assert in_the_module(kernel_of(fused_desc(operator, 1.0)), tmp_path) == [str(float32_bits(1.0))]
    assert in_the_module(kernel_of(fused_desc(operator, ANY_VALUE)), tmp_path) == ["0"]


def test_one_module_is_told_the_relation_and_the_sign() -> None:
    """Of all comparisons of integers of a width there is one: what differs is what it is told."""
    told: dict[str, set[int]] = {}
    operators = ("EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN", "LESS_THAN_OR_EQUAL")
    for operator, data_type in itertools.product(operators, (dml.INT16, dml.UINT16)):
        operand, truths = dml.TensorDesc(data_type, (4, 6)), dml.TensorDesc(dml.UINT8, (4, 6))
        name = f"ELEMENT_WISE_LOGICAL_{operator}"
        desc = dml.operator_desc(name, ATensor=operand, BTensor=operand, OutputTensor=truths)
        told.setdefault(kernel_of(desc).variant, set()).add(special_attribute(desc))
    assert [len(values) for values in told.values()] == [2 * len(operators)]


def test_values_count_as_they_are_in_float32() -> None:
    """What the shader cannot tell from a special value gives the same bits."""
    nearest, next_one = 1 + 2.0**-25, 1 + 2.0**-23
    assert special_attribute(desc_of("ACTIVATION_CELU", nearest)) == float32_bits(1.0)
    for value in (next_one, -1.0, 0.0, math.inf, math.nan, 2.0**-149):
        assert special_attribute(desc_of("ACTIVATION_CELU", value)) == 0, value
    assert special_attribute(dml.ElementWiseExp(input_tensor=X_DESC, output_tensor=X_DESC)) == 0


@pytest.mark.parametrize(("operator", "value"), [*EVERY_VALUE, *((name, ANY_VALUE) for name in SPECIAL_VALUES)])
def test_fused_kernels_are_told_too(any_device: dml.Device, operator: str, value: float) -> None:
    """Their bits are those of the operators one by one, of two with different values as well."""
    graph = dml.Graph(any_device)
    x = graph.input("x", dml.FLOAT32, X.shape)
    function = getattr(F, operator.removeprefix("ELEMENT_WISE_").lower())
    attribute, values = SPECIAL_VALUES[operator]
    outputs = {"y": -function(abs(x), **{attribute: value}), "z": -function(abs(x), **{attribute: values[-1]})}
    assert len(fused(any_device, graph, outputs, {"x": X}).stages) == 1


def test_a_module_without_the_constant_stays_as_it_is() -> None:
    spirv = kernel_of(dml.ElementWiseExp(input_tensor=X_DESC, output_tensor=X_DESC)).spirv()
    assert with_constant(spirv, SPECIAL_ATTRIBUTE, 5) == np.frombuffer(spirv, "<u4").astype("=u4").tobytes()


def test_drivers_that_see_numbers_see_it(tmp_path: Path) -> None:
    """As all constants are made numbers for SwiftShader."""
    kernel = kernel_of(desc_of("ACTIVATION_CELU", 1.0))
    made = specialized(kernel.spirv(), kernel.specialization([0, 0]))
    (tmp_path / "shader.spv").write_bytes(made)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", tmp_path / "shader.spv"], check=True)
    shown = subprocess.run(["spirv-dis", str(tmp_path / "shader.spv")], check=True, capture_output=True, text=True)
    assert "SpecId" not in shown.stdout
    assert f"OpConstant %uint {float32_bits(1.0)}" in shown.stdout


ELEMENTS = 2**24
"""So many that every choice asks for what takes a while."""

_LONGER_IN_ROWS = {"element_wise_acosh.float32.rows", "element_wise_clip_grad.float16.rows"}
"""Of which more is called as a function in rows than in the contiguous kernel, for which they are taken: that costs
time and no bit."""


def test_a_function_takes_as_long_in_rows_as_contiguous() -> None:
    """Both access orders ask for it; one fact serves them."""
    rows = [variant.name for variant in regular_variants() if variant.name.endswith(".rows")]
    assert len(rows) > 300
    differing = set()
    for name in rows:
        takes_a_while = called_words(library.load(name)) >= LONG_FUNCTION_WORDS
        if takes_a_while != (facts_of(name).words >= LONG_FUNCTION_WORDS):
            differing.add(name)
    assert differing == _LONGER_IN_ROWS


def test_lowering_reads_no_shader_of_known_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [variant.name for variant in regular_variants() if variant.name.endswith(".contiguous")]
    known = {name: (library.key(name), Facts(1000, False)) for name in names}
    monkeypatch.setattr("dmlvk.kernels.library.facts._known", lambda: known)
    monkeypatch.setattr(library, "load", lambda name: pytest.fail(f"{name} was read"))
    facts_of.cache_clear()
    lowered = set()
    for case in value_cases():
        if case.desc_class.declaration.pattern != "elementwise":
            continue
        attributes = attribute_sets(case.desc_class, case.data_types[0][1])[0]
        for layout, target in itertools.product(LAYOUTS, (CPU, GPU)):
            sizes, strides = layout_of(case, layout, ELEMENTS)
            lowered.add(kernel_of(describe(case, sizes, strides, attributes), target).variant)
    facts_of.cache_clear()
    assert len(lowered) > 500


@pytest.mark.parametrize("key", [None, "of other sources"], ids=["new", "changed"])
def test_a_function_that_is_new_or_was_changed_is_measured(key: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts.of(library.load("element_wise_sin.float32.contiguous"))
    assert facts.words > LONG_FUNCTION_WORDS
    known = {} if key is None else {"element_wise_sin.float32.contiguous": (key, Facts(1, True))}
    monkeypatch.setattr("dmlvk.kernels.library.facts._known", lambda: known)
    facts_of.cache_clear()
    assert facts_of("element_wise_sin.float32.rows") == facts
    facts_of.cache_clear()


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    assert read_facts(tmp_path) == {}
    written = [("first.contiguous", "one", Facts(7, True)), ("second.contiguous", "two", Facts(900, False))]
    (tmp_path / FILE_NAME).write_text(facts_text(written))
    assert read_facts(tmp_path) == {name: (key, facts) for name, key, facts in written}
