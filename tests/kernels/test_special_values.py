"""Attributes with special values are known when a pipeline is made."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dmlvk as dml
from dmlvk import functions as F
from dmlvk.datatypes import float32_bits
from dmlvk.kernels.kernel import Kernel
from dmlvk.kernels.special_values import SPECIAL_ATTRIBUTE, SPECIAL_VALUES, special_attribute
from dmlvk.operators import OPERATORS, FusedActivation, OperatorDesc
from dmlvk.spirv.modules import with_constant
from dmlvk.spirv.specialization import specialized
from tests.graphs.support import X, fused
from tests.targets import kernel_of

ANY_VALUE = 1.75
"""Of an attribute; special for no operator."""

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
