"""Products of many rows with packed weights, chunk by chunk, in tiles, have the bits of their definition.

Tiles are those of GPUs; here processors compute them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.kernels.products import chunk_tiles, packed_matrices
from dmlvk.kernels.products.block_weights import Blocks, BlockWeights
from dmlvk.kernels.products.chunk_tiles import SHAPES, ChunkTile
from dmlvk.kernels.products.matrix import gemm_product
from dmlvk.kernels.target import Target
from dmlvk.operators import Gemm
from tests.graphs.test_packed_weights import OwnBlocks
from tests.operators.test_packed_chunks import KINDS, check, chunked, rows_of
from tests.packed import of_rows_and_blocks
from tests.targets import variants_of

Array = npt.NDArray[Any]
Shape = tuple[int, int, int, int, int]
_SIZES = ((17, 24, 1280), (70, 67, 320), (33, 131, 2048 + 96))
"""Rows, columns and terms: of several segments, and of no whole number of tiles."""

_GPU = Target(shared_memory=32768, buffers=16, buffer_size=2**31)
_WITH_MINIMA, _WITH_FLOATS = KINDS[13], KINDS[-1]
_IDS = [f"{shape[0] * shape[2]}x{shape[1] * shape[3]}" for shape in SHAPES]


def compute_in_tiles(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, *, registers: int = 256, fewest_groups: int = 0
) -> None:
    """Every device computes all products so: at once, or of fewer work groups than a GPU wants segment by segment."""
    target = dataclasses.replace(_GPU, registers=registers)
    monkeypatch.setattr(dml.Device, "target", property(lambda _: target))
    monkeypatch.setattr(packed_matrices, "CORES", fewest_groups)
    monkeypatch.setattr(chunk_tiles, "tile_for", lambda _, weights, __: ChunkTile(*shape, weights.data_type))


def of_size(kind: OwnBlocks, size: tuple[int, int, int]) -> dict[str, Array]:
    rows, columns, terms = size
    whole = kind.block * kind.large * 2
    return rows_of(kind, rows, columns, -(-terms // whole) * whole)


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_tiles_have_the_bits_of_the_definition(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """For each type one of all tiles, whose sums are complete, or of segments."""
    compute_in_tiles(monkeypatch, SHAPES[number % 3], fewest_groups=number % 2 * 1000)
    _, names = check(device, KINDS[number], of_size(KINDS[number], _SIZES[number // 2 % 3]))
    assert [name.split(".")[-2 if "totals" in name or "rows" in name else -3] for name in names] == [
        "chunk_rows_of_tiles", "chunk_tiles", "chunk_totals",
    ]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=_IDS)
def test_all_tiles_have_them_for_all_sizes(device: dml.Device, monkeypatch: pytest.MonkeyPatch, shape: Shape) -> None:
    """By GPUs with so few registers that all sums of segments go to memory."""
    compute_in_tiles(monkeypatch, shape, registers=64)
    for size in _SIZES:
        check(device, _WITH_MINIMA, of_size(_WITH_MINIMA, size))


@pytest.mark.parametrize("kind", [_WITH_MINIMA, KINDS[1], _WITH_FLOATS], ids=str)
def test_rare_terms_and_scales_have_them_too(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: OwnBlocks
) -> None:
    """Infinities, NaN, denormals, sums that vanish, and terms and columns that are graded by powers of two."""
    compute_in_tiles(monkeypatch, SHAPES[1])
    inputs = of_size(kind, (40, 70, 1280))
    x = inputs["x"]
    for row, unusual in enumerate((0.0, 1e-39, 1e-20, 1e37, 3e38, np.inf, -np.inf, np.nan)):
        x[row, 40:48] = unusual
        x[row + 8] = unusual
    x[16] *= np.float32(1e-34)
    x[17] *= np.float32(1e-30)
    x[17, :16] = 1e-42
    x[18:30] *= np.exp2(np.random.default_rng(5).integers(-60, 61, (12, x.shape[1]))).astype(np.float32)
    x[30:34] *= np.exp2(np.arange(x.shape[1]) % 121 - 60).astype(np.float32)
    x[34, 1::2] = -x[34, ::2]
    inputs["w.s"][3, 2], inputs["w.s"][11, 0] = 0.0, 6e-8
    inputs["w.s"][5, 1], inputs["w.s"][66, 0] = np.inf, np.nan
    inputs["w.s"][20:40] *= np.exp2(np.arange(20) % 11 - 8).astype(np.float16)[:, None]
    if kind.has_float_zeros:
        inputs["w.z"][7, 3], inputs["w.z"][8, 3], inputs["w.z"][9, 3] = 1e-41, 1e-20, np.inf
    check(device, kind, inputs)


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[6], _WITH_FLOATS], ids=str)
def test_rows_of_halves_have_them_too(device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: OwnBlocks) -> None:
    compute_in_tiles(monkeypatch, SHAPES[0])
    inputs = of_size(kind, (19, 67, 1280))
    inputs["x"] = inputs["x"].astype(np.float16)
    if kind.has_float_zeros:
        inputs["w.z"] = inputs["w.z"].astype(np.float16)
    graph = kind.graph(device, inputs, dml.FLOAT16, fuse=True)
    with np.errstate(over="ignore"):
        expected = chunked(kind, inputs["x"].astype(np.float32), inputs).astype(np.float16)
    assert device.run(graph, inputs)["y"].tobytes() == expected.tobytes()
    assert any(".chunk_tiles." in name for name in variants_of(graph))


@pytest.mark.parametrize(("shape", "bits", "block"), [(SHAPES[0], 4, 32), (SHAPES[1], 2, 16), (SHAPES[2], 8, 8)])
def test_products_with_a_gate_have_the_bits_of_two(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, shape: Shape, bits: int, block: int
) -> None:
    """swish(gate) * product: columns of both lie side by side in a tile."""
    rows, columns, terms = 21, 67, 1024 + 4 * block
    random, found = np.random.default_rng(bits), []
    inputs: dict[str, Array] = {"x": random.standard_normal((rows, terms)).astype(np.float32)}
    for name in ("gate", "w"):
        inputs[name] = random.integers(0, 256, (columns, terms * bits // 8), np.uint8)
        inputs[f"{name}.s"] = (random.standard_normal((columns, terms // block)) / 64).astype(np.float32)
    compute_in_tiles(monkeypatch, shape)
    for fuse in (True, False):
        graph = of_rows_and_blocks(device, inputs, (columns, terms), fuse=fuse, bits=bits, block_size=block)
        assert any(name.endswith(".gated") for name in variants_of(graph)) == fuse
        found.append(device.run(graph, inputs)["y"])
    assert found[0].tobytes() == found[1].tobytes()


_FEW = None
_CHOICES = {
    (12, 16384, 4096): _FEW, (16, 16384, 4096): 16, (18, 28672, 4096): _FEW, (32, 28672, 4096): 32,
    (48, 28672, 4096): 16, (64, 28672, 4096): 64, (512, 4096, 14336): 64, (512, 4096, 4096): 64,
    (512, 1024, 4096): 64, (32, 1024, 2048): _FEW,
}  # fmt: skip
"""Rows of the tile that a GPU with many registers takes for rows, columns and terms."""


def _product(rows: int, columns: int, terms: int) -> tuple[Any, BlockWeights]:
    desc = Gemm(
        a_tensor=dml.TensorDesc(dml.FLOAT32, (1, 1, rows, terms)),
        b_tensor=dml.TensorDesc(dml.FLOAT32, (1, 1, columns, terms)),
        output_tensor=dml.TensorDesc(dml.FLOAT32, (1, 1, rows, columns)),
        trans_a=dml.MatrixTransform.NONE,
        trans_b=dml.MatrixTransform.TRANSPOSE,
        alpha=1.0,
        beta=0.0,
        fused_activation=None,
    )
    return gemm_product(desc), BlockWeights(
        dml.FLOAT32, 4, False, columns, terms, 1, terms, Blocks(32, 1, 1, terms // 32)
    )


@pytest.mark.parametrize("size", _CHOICES, ids=str)
def test_tiles_are_taken_where_they_take_fewer_instructions(size: tuple[int, int, int]) -> None:
    """And where a GPU has enough work groups of them."""
    product, weights = _product(*size)
    tile = chunk_tiles.tile_for(product, weights, _GPU)
    assert (tile and tile.tile_rows) == _CHOICES[size]
    assert packed_matrices.multiplies(product, weights, _GPU) == (tile is not None)


def test_tiles_need_room() -> None:
    """For themselves on a device, and for rows and sums in buffers."""
    for shape in SHAPES:
        assert ChunkTile(*shape).shared_memory <= 32768 and ChunkTile(*shape).invocations <= 256
    product, weights = _product(512, 28672, 4096)
    limits: list[dict[str, Any]] = [{"work_group_size": 64}, {"buffers": 9}, {"buffer_size": 2**23}]
    for lacking in limits:
        assert not packed_matrices.multiplies(product, weights, dataclasses.replace(_GPU, **lacking))
    small = chunk_tiles.tile_for(product, weights, dataclasses.replace(_GPU, shared_memory=16384))
    assert small is not None and small.tile_rows == 32
    few = dataclasses.replace(_GPU, registers=64, buffer_size=2**28)
    assert not packed_matrices.multiplies(product, weights, few)  # whose sums of segments have more bytes
    assert packed_matrices.multiplies(product, weights, dataclasses.replace(few, buffer_size=2**29))
