"""Products of FLOAT32 by exact integers.

No processor here has matrices of bytes: what imitates them stands in the place of the include that names them.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.conformance.references import exact_products as reference
from dmlvk.conformance.references.bounded import fault
from dmlvk.conformance.references.device_arithmetic import outputs_within_error
from dmlvk.kernels import library
from dmlvk.kernels.library.compiler import Compiler
from dmlvk.kernels.library.sources import SourceTree
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.products import exact_products
from dmlvk.kernels.target import GPU, Target
from dmlvk.kernels.variants import ShaderVariant
from tests.cooperative_modules import NEEDS_VALIDATOR, assert_valid, imitate_matrices
from tests.operators.test_products import gemm_desc, on_llvmpipe

Array = npt.NDArray[Any]

ABLE = dataclasses.replace(
    GPU,
    has_cooperative_bytes=True,
    device_arithmetic=True,
    shared_memory=49152,
    work_group_size=1024,
    buffers=8,
    buffer_size=2**32 - 1,
)
_BY_MATRICES = (exact_products.TILES, exact_products.OTHERS)
_ALLOWED = dml.ExecutionFlags.ALLOW_DEVICE_ARITHMETIC


@NEEDS_VALIDATOR
@pytest.mark.parametrize("variant", _BY_MATRICES, ids=lambda variant: variant.name)
def test_modules_are_valid(variant: ShaderVariant) -> None:
    assert_valid(variant.name)


@pytest.fixture
def device(benches: list[Workbench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dml.Device:
    """A device that has such matrices, or what imitates them, and multiplies all that it may by them."""
    imitate_matrices(tmp_path)
    pattern = tmp_path / "shaders" / "patterns" / "products" / "exact_tiles.glsl"
    pattern.write_text(pattern.read_text().replace("[[unroll]] ", ""))
    compiler = Compiler.find(SourceTree(tmp_path / "shaders"))
    load = library.load

    @functools.cache
    def compiled(variant: ShaderVariant) -> bytes:
        return compiler.compile(variant)

    def imitation(name: str) -> bytes:
        variant = next((variant for variant in _BY_MATRICES if variant.name == name), None)
        return load(name) if variant is None else compiled(variant)

    def able(self: dml.Device) -> Target:
        return ABLE

    monkeypatch.setattr(library, "load", imitation)
    monkeypatch.setattr(dml.Device, "target", property(able))
    for least in ("_FEWEST_TERMS", "_FEWEST_GROUPS", "_LEAST_SIDE"):
        monkeypatch.setattr(exact_products, least, 1)
    return on_llvmpipe(benches)[0].device


def _run(device: dml.Device, desc: dml.Gemm, inputs: dict[str, Array]) -> Array:
    compiled = device.compile_operator(device.create_operator(desc), _ALLOWED)
    variants = [step.kernel.variant for step in compiled.steps]
    assert {exact_products.OPERAND.name, exact_products.TILES.name, exact_products.REST.name} <= set(variants)
    result: Array = device.run(compiled, inputs)["OutputTensor"]
    assert fault("GEMM", result, outputs_within_error(desc, inputs)["OutputTensor"]) is None
    return result


def test_results_have_the_bits_of_their_definition(device: dml.Device) -> None:
    """Of a tile whose rows are certified by six products, by nine, and not at all, with columns at its edge."""
    random = np.random.default_rng(1)
    a, b = random.standard_normal((40, 1030)), random.standard_normal((1030, 140))
    a[1, 7::256] *= 1000
    a[5:8, 7] *= 1000
    a[8] *= random.random(1030) < 0.01
    a[10], a[11] = 0, np.arange(1030) == 300  # whose integers are exact: nine products are certified
    a, b = a.astype(np.float32), b.astype(np.float32)
    result = _run(device, gemm_desc(dml.FLOAT32, 40, 1030, 140), {"ATensor": a, "BTensor": b})
    expected, certified = reference.product(a, b.T)
    counts = {int(n): int((certified == n).sum()) for n in (0, 6, 9)}
    assert min(counts.values()) > 0 and counts[0] <= 256, counts
    assert np.array_equal(result[certified > 0], expected[certified > 0]) and (certified[11] == 9).mean() > 0.9


@pytest.mark.sweep
def test_layouts_and_what_follows_sums(device: dml.Device) -> None:
    """Both operands transposed, one of them the same for two batches, C, Alpha, Beta and RELU; what is not finite, and
    a tile that is computed as a whole."""
    random = np.random.default_rng(2)
    rows, terms, columns = 36, 1028, 132
    sizes = {"ATensor": (2, 1, terms, rows), "BTensor": (2, 1, columns, terms), "CTensor": (2, 1, rows, columns)}
    inputs = {name: random.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    inputs["BTensor"][1] = inputs["BTensor"][0]
    inputs["ATensor"][0, 0, 3, 1], inputs["ATensor"][0, 0, 1027, 2] = np.nan, -np.inf
    inputs["ATensor"][1, 0, 5::7] *= np.float32(1e30)
    tensors = {name: dml.TensorDesc(dml.FLOAT32, size) for name, size in sizes.items()}
    desc = dml.Gemm(
        a_tensor=tensors["ATensor"],
        b_tensor=dml.TensorDesc(dml.FLOAT32, sizes["BTensor"], (0, 0, terms, 1)),
        c_tensor=tensors["CTensor"],
        output_tensor=tensors["CTensor"],
        trans_a=dml.MatrixTransform.TRANSPOSE,
        trans_b=dml.MatrixTransform.TRANSPOSE,
        alpha=0.75,
        beta=-2.0,
        fused_activation=dml.fused_activation("ACTIVATION_RELU"),
    )
    _run(device, desc, inputs)


def _errors(a: Array, b: Array) -> tuple[Array, Array]:
    """Of results how large their errors are beside what is stated, and by how many products each is certified."""
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    results, certified = reference.product(a, b)
    terms = a.shape[1]
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble).T
    magnitudes = np.abs(a).astype(float) @ np.abs(b).astype(float).T
    stated = (min(terms, 1024) + -(-terms // 1024) + 2) * 2.0**-24 * magnitudes
    with np.errstate(invalid="ignore"):
        return np.abs(results - exact) / stated, certified


def _hard(kind: str, random: np.random.Generator) -> tuple[Array, Array]:
    a, b, terms = random.standard_normal((12, 1100)), random.standard_normal((16, 1100)), np.arange(1100)
    if kind == "graded":
        scale = np.exp2(random.integers(-60, 61, 1100))
        return a * scale, b / scale
    if kind == "huge in each block":
        return np.where(terms % 256 == 9, 1e6, 1) * a, b
    if kind == "huge meets zeros":
        return np.where(terms % 256 == 9, 1e6, 1) * a, np.where(terms % 256 == 9, 0, b)
    if kind == "cancelling":
        return np.repeat(a[:, ::2], 2, 1), np.repeat(b[:, ::2], 2, 1) * np.tile([1, -1], 550)
    if kind == "Hilbert":
        return 1 / (np.arange(12)[:, None] + terms + 1), 1 / (np.arange(16)[:, None] + terms + 1)
    if kind == "Vandermonde":
        return np.linspace(-1, 1, 12)[:, None] ** terms, np.linspace(-1, 1, 16)[:, None] ** terms
    if kind == "outlying channels":
        return a * np.where(random.random(1100) < 0.01, 1000, 1), b
    if kind == "features in units of their own":
        scale = np.exp(random.uniform(-14, 14, 1100))
        return np.abs(a) * scale, b / scale
    return a, b


@pytest.mark.parametrize(
    ("kind", "products"),
    [
        ("normal", {6}),
        ("cancelling", {6}),
        ("Hilbert", {6, 9}),
        ("Vandermonde", {0, 6, 9}),
        ("outlying channels", {0, 9}),
        ("huge in each block", {0}),
        ("huge meets zeros", {0}),
        ("graded", {0}),
        ("features in units of their own", {0}),
    ],
)
def test_what_is_certified_is_within_the_stated_error(kind: str, products: set[int]) -> None:
    """Of matrices that are made to break it, with results of nine products that do."""
    with np.errstate(under="ignore", over="ignore"):
        errors, certified = _errors(*_hard(kind, np.random.default_rng(3)))
    assert set(certified.flat) == products
    assert errors[certified > 0].max(initial=0) < 0.1
    if kind in ("huge meets zeros", "graded", "features in units of their own"):
        assert errors.max() > 1


def test_a_result_does_not_depend_on_what_lies_beside_it() -> None:
    random = np.random.default_rng(4)
    a, b = random.standard_cauchy((9, 1500)).astype(np.float32), random.standard_normal((7, 1500)).astype(np.float32)
    results, certified = reference.product(a, b)
    assert len(np.unique(certified)) > 1
    for row in range(9):
        alone = reference.product(a[row : row + 1], b[3:4])
        assert (alone[0][0, 0], alone[1][0, 0]) == (results[row, 3], certified[row, 3])


def test_they_are_for_large_products_of_devices_that_have_such_matrices() -> None:
    def chosen(target: Target, rows: int, terms: int, columns: int, data_type: dml.DataType = dml.FLOAT32) -> bool:
        desc = gemm_desc(data_type, rows, terms, columns)
        return exact_products.TILES.name in [step.kernel.variant for step in lower(desc, target).steps]

    for shape in ((4096, 4096, 4096), (4095, 4093, 4091), (512, 4096, 14336), (1024, 16384, 1024), (8192, 8192, 8192)):
        assert chosen(ABLE, *shape), shape
    few_terms, many_terms, few_rows, few_tiles = (
        (4096, 1024, 4096),
        (512, 2**16 + 1, 8192),
        (256, 4096, 14336),
        (900, 4096, 900),
    )
    for shape in (few_terms, many_terms, few_rows, few_tiles, (16384, 16384, 16384)):
        assert not chosen(ABLE, *shape), shape
    assert not chosen(ABLE, 4096, 4096, 4096, dml.FLOAT16)
    for lacks in (
        {"device_arithmetic": False},
        {"has_cooperative_bytes": False},
        {"shared_memory": 49151},
        {"buffers": 4},
        {"buffer_size": 2**26},
    ):
        assert not chosen(dataclasses.replace(ABLE, **lacks), 4096, 4096, 4096)
