"""Products of many rows of FLOAT16 with packed weights, in tiles: their bits are those of the definition.

No processor here has matrices that subgroups hold together: those kernels run with a file in the place of the include
that names them. Tiles of GPUs without such matrices run as they are.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.products import packed_matrices
from dmlvk.kernels.products.block_weights import Blocks, BlockWeights
from dmlvk.kernels.products.matrix import gemm_product
from dmlvk.kernels.target import CPU, Target
from dmlvk.operators import Gemm
from dmlvk.runtime.vulkan import DeviceInfo
from tests.cooperative_modules import imitate_matrices
from tests.operators.test_cooperative_attention import VARIANTS as TRIALS
from tests.packed import Product
from tests.targets import on_llvmpipe, variants_of

Array = npt.NDArray[Any]
_TARGET = dml.Device.__dict__["target"]  # which tests here have another one of
_SEGMENT = 1024
_SMALL = packed_matrices.ExactTile(1, 1, 1, 1, 1)
_SHARED = packed_matrices.ExactTile(1, 1, 1, 1, 2, True)
_ABILITIES = {"has_cooperative_halves": True, "has_narrow_halves": True}
_KINDS = ((4, 32, True), (8, 16, False), (2, 32, False))
_VARIANTS = [
    tile.variant(bits, chunk, is_gated=is_gated) for tile in packed_matrices.TILES for bits, chunk, is_gated in _KINDS
]


@dataclasses.dataclass(frozen=True)
class Case(Product):
    """Of blocks with zeros, by rows with terms of many magnitudes, and what is not finite in one of them."""

    has_zeros: bool = True

    def inputs(self, seed: int = 3) -> dict[str, Array]:
        random, made = np.random.default_rng(seed), super().inputs(seed)
        shape = made["x"].shape
        x = made["x"] * np.exp2(random.integers(-20, 8, shape) * (random.random(shape) < 0.3))
        x[1, 3], x[2, 5], x[3, 7] = np.inf, 50000, -3000
        return {**made, "x": x.astype(np.float16)}

    def run(self, device: dml.Device, inputs: dict[str, Array]) -> tuple[Array, list[str]]:
        graph = self.graph(device)
        return device.run(graph, inputs)["y"], variants_of(graph)


def expected(case: Case, inputs: dict[str, Array]) -> Array:
    """What docs/notes/exact-products.md defines, by NumPy's numbers of 53 bits, in which a chunk's sums are exact."""
    chunk = min(case.block, 32)
    x = inputs["x"].astype(np.float64).reshape(case.rows, -1, chunk)
    peak = np.abs(x).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        power = np.exp2(np.floor(np.log2(peak / (127 / 128))) + 1)
        unit = np.where(peak > 0, power, 1) * 2.0**-23
        first = np.rint(x / unit) * unit
        rest = x - first
        integers = inputs["w"].astype(np.float64) - np.repeat(inputs["w.z"], case.block, 1)
        weights = integers.reshape(case.columns, -1, chunk)
        sums = np.einsum("rkt,ckt->krc", first, weights).astype(np.float32)
        sums = sums + np.einsum("rkt,ckt->krc", rest, weights).astype(np.float32)
        scales = np.repeat(inputs["w.s"].astype(np.float32), case.block // chunk, 1)
        values = sums * scales.T[:, None, :]
        total = np.zeros((case.rows, case.columns), np.float32)
        for segment in range(0, case.terms // chunk, _SEGMENT // chunk):
            of_segment = np.zeros_like(total)
            for value in values[segment : segment + _SEGMENT // chunk]:
                of_segment = of_segment + value
            total = total + of_segment
        return total.astype(np.float16)


def check(case: Case, device: dml.Device, inputs: dict[str, Array] | None = None) -> list[str]:
    """The bits of what is finite, and what is not."""
    inputs = inputs or case.inputs()
    found, names = case.run(device, inputs)
    wanted = expected(case, inputs)
    finite = np.isfinite(wanted)
    assert np.array_equal(found[finite].view(np.uint16), wanted[finite].view(np.uint16))
    assert not np.isfinite(found[~finite]).any()
    return names


@pytest.mark.every_driver
@pytest.mark.parametrize(
    "case",
    [Case(19, 1120, 70), Case(9, 1040, 20, block=16), Case(12, 256, 66, dml.UINT8), Case(33, 2048, 8, dml.UINT8, 128)],
    ids=str,
)
def test_many_rows_have_the_bits_of_the_definition(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    monkeypatch.setattr(dml.Device, "target", property(lambda _: dataclasses.replace(CPU, buffers=16)))
    assert ".exact.blocks." in check(case, device)[1]


@pytest.mark.parametrize("has_dot_product", [False, True], ids=["floats", "dots"])
@pytest.mark.parametrize("registers", [64, 128, 256])
@pytest.mark.parametrize(
    "case", [Case(19, 5 * _SEGMENT + 64, 70), Case(33, 1040, 20, block=16), Case(12, 288, 66, dml.UINT8)], ids=str
)
def test_tiles_without_matrices_give_the_same_bits(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, case: Case, registers: int, has_dot_product: bool
) -> None:
    """On GPUs with and without integer dot products, whole and in parts of a segment."""
    own = Target.of(device.info)
    if own.is_naive:
        pytest.skip("SwiftShader compiles a GPU's products for ten seconds")
    as_gpu = Target(
        registers=registers, has_integer_dot_product=has_dot_product, buffers=10, buffer_size=own.buffer_size
    )
    monkeypatch.setattr(dml.Device, "target", property(lambda _: as_gpu))
    monkeypatch.setattr(packed_matrices, "CORES", 0 if registers == 128 else 1000)
    names = check(case, device)
    assert any((".dots." if has_dot_product else ".floats.") in name for name in names)
    assert any(".totals." in name for name in names) == (case.terms > _SEGMENT and registers != 128)


@pytest.fixture(params=[_SMALL, _SHARED], ids=["from memory", "by shared memory"])
def imitated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> packed_matrices.ExactTile:
    tile: packed_matrices.ExactTile = request.param
    small = [tile.variant(bits, chunk, is_gated=False) for bits, chunk in ((4, 32), (8, 16))]
    imitate_matrices(monkeypatch, {**TRIALS, **{variant.name: variant for variant in small}})
    monkeypatch.setattr(packed_matrices, "tile_for", lambda product, weights, target: tile)
    of = Target.of

    def able(info: DeviceInfo, enabled_features: Any = ()) -> Target:
        made = of(info, enabled_features)
        return dataclasses.replace(made, is_cpu=False, **_ABILITIES, shared_memory=49152)

    monkeypatch.setattr(Target, "of", able)
    monkeypatch.setattr(dml.Device, "target", _TARGET)
    return tile


_OF_BYTES = pytest.param(Case(9, 80, 20, dml.UINT8, 16), marks=pytest.mark.sweep)


@pytest.mark.parametrize("case", [Case(18, 1120, 20), _OF_BYTES], ids=str)
def test_matrices_give_the_same_bits(benches: list[Workbench], imitated: packed_matrices.ExactTile, case: Case) -> None:
    """On a device that was tried: its matrices lie as they must, and their sums are exact."""
    with dml.Device(on_llvmpipe(benches)[0].device.info.index) as device:
        assert device.target.has_exact_halves
        bits, chunk = case.integer.size_in_bits, min(case.block, 32)
        assert imitated.variant(bits, chunk, is_gated=False).name in check(case, device)


def test_sums_of_parts_are_added_segment_by_segment(
    benches: list[Workbench], imitated: packed_matrices.ExactTile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many work groups a GPU wants: here two, for four segments."""
    monkeypatch.setattr(packed_matrices, "CORES", 1)
    case = Case(5, 4 * _SEGMENT, 20)
    inputs = {name: np.zeros_like(array) for name, array in case.inputs().items()}
    inputs["x"][:, ::_SEGMENT] = 4096, 0, 5 * 2.0**-14, -4096
    inputs["w.s"][:] = inputs["w"][:] = 1
    with dml.Device(on_llvmpipe(benches)[0].device.info.index) as device:
        found, names = case.run(device, inputs)
    assert (found == 8 * 2.0**-14).all()  # which is what 5 is rounded to beside 2^26
    assert any(".exact.totals." in name for name in names)


def test_devices_without_narrow_matrices_multiply_bytes(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 16 x 16 alone are not enough."""
    of = Target.of

    def without_narrow(info: DeviceInfo, enabled_features: Any = ()) -> Target:
        made = of(info, enabled_features)
        return dataclasses.replace(made, is_cpu=False, has_cooperative_halves=True, registers=256, shared_memory=49152)

    monkeypatch.setattr(Target, "of", without_narrow)
    monkeypatch.setattr(dml.Device, "target", _TARGET)
    with dml.Device(on_llvmpipe(benches)[0].device.info.index) as device:
        assert not device.target.has_exact_halves
        assert any(".dots." in name or ".floats." in name for name in check(Case(9, 96, 20), device))


@pytest.mark.parametrize(("rows", "is_tiled"), [(2, False), (3, True), (64600, True), (65100, False)])
def test_parts_of_rows_fit_a_buffer(rows: int, is_tiled: bool) -> None:
    """Of 11008 terms each, of which parts have six bytes and a bit; kernels of few rows have none."""
    desc = Gemm(
        a_tensor=dml.TensorDesc(dml.FLOAT16, (1, 1, rows, 11008)),
        b_tensor=dml.TensorDesc(dml.FLOAT16, (1, 1, 64, 11008)),
        output_tensor=dml.TensorDesc(dml.FLOAT16, (1, 1, rows, 64)),
        trans_a=dml.MatrixTransform.NONE,
        trans_b=dml.MatrixTransform.TRANSPOSE,
        alpha=1.0,
        beta=0.0,
        fused_activation=None,
    )
    weights = BlockWeights(dml.FLOAT16, 4, False, 64, 11008, 1, 11008, Blocks(32, 1, 1, 344))
    target = Target(has_exact_halves=True, shared_memory=2**16, buffers=16, buffer_size=2**32 - 1)
    assert packed_matrices.multiplies(gemm_product(desc), weights, target) == is_tiled
