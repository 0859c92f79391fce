"""A kernel whose work groups have another size than shaders are compiled with says so in both places of its module."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.operators import OperatorDesc
from dmlvk.spirv.flattening import flattened
from dmlvk.spirv.specialization import specialized
from tests.targets import kernel_of


def _exp(elements: int) -> OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, (elements,))
    return dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor)


def _softmax(length: int) -> OperatorDesc:
    tensor = dml.TensorDesc(dml.FLOAT32, (64, length))
    return dml.ActivationSoftmax(input_tensor=tensor, output_tensor=tensor)


def _sizes(spirv: bytes, directory: Path) -> tuple[int, int]:
    """The execution mode's size and the built-in one's, as SPIRV-Tools show them."""
    (directory / "shader.spv").write_bytes(spirv)
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", directory / "shader.spv"], check=True)
    command = ["spirv-dis", "--raw-id", str(directory / "shader.spv")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    mode = re.search(r"OpExecutionMode %\d+ LocalSize (\d+) 1 1", text)
    name = re.search(r"OpDecorate (%\d+) BuiltIn WorkgroupSize", text)
    assert mode and name
    composite = re.search(rf"{name[1]} = OpConstantComposite %\d+ (%\d+) ", text)
    assert composite
    constant = re.search(rf" {composite[1]} = OpConstant %\d+ (\d+)", text)
    assert constant
    return int(mode[1]), int(constant[1])


@pytest.mark.parametrize(
    ("desc", "size"),
    [(_exp(1000), 256), (_exp(2**24), 128), (_softmax(1000), 128), (_softmax(3000), 256), (_softmax(10000), 256)],
    ids=["one vector", "two vectors", "64 lanes", "256 lanes", "long rows"],
)
def test_both_sizes_in_a_module_are_the_kernels(desc: OperatorDesc, size: int, tmp_path: Path) -> None:
    kernel = kernel_of(desc)
    assert kernel.work_group_size == size
    assert _sizes(kernel.spirv(), tmp_path) == (size, size)
    assert _sizes(flattened(specialized(kernel.spirv(), kernel.specialization((0, 0)))), tmp_path) == (size, size)
