"""Products of rows with packed weights by wide integers have the bits of their definition, among any number of rows.

The definition is in docs/notes/exact-products.md; weights are those of GGUF's types.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.products import packed_matrices
from dmlvk.kernels.products.block_weights import Blocks, BlockWeights
from dmlvk.kernels.products.packed_integers import rows_kernel, rows_kernels
from dmlvk.kernels.products.packed_matrices import ExactTile
from dmlvk.kernels.target import GPU, Target
from tests.cooperative_modules import imitate_matrices
from tests.graphs.test_packed_weights import OWN_BLOCKS, OwnBlocks
from tests.targets import computes_as_gpu, on_llvmpipe, variants_of

Array = npt.NDArray[Any]
_SEGMENT = 1024
_WITH_MINIMA = (
    OwnBlocks(4, 32, np.int8, 0, 8, has_minima=True),
    OwnBlocks(5, 32, np.int8, 0, 8, has_minima=True),
    OwnBlocks(2, 16, np.uint8, 0, 16, has_minima=True),
    OwnBlocks(4, 32, has_minima=True),
    OwnBlocks(8, 16, np.uint8, 3, 4, has_minima=True),
)
"""As Q4_K, Q5_K, Q2_K and Q4_1 have them, and as none has."""

_WITH_FLOATS = OwnBlocks(4, 32, has_float_zeros=True)
KINDS = (*OWN_BLOCKS, *_WITH_MINIMA, _WITH_FLOATS)


_OUT = (np.float32(2.0**-24), np.float32(2.0**30))


def _step(numbers: Array) -> Array:
    """As FLOAT32, with zeros for denormals."""
    single: Array = numbers.astype(np.float32)
    return np.where(np.abs(single) < np.finfo(np.float32).tiny, np.float32(0), single)


def _term_by_term(x: Array, weights: Array, scale: Array, minimum: Array | None) -> Array:
    """What a chunk out of range gives."""

    def sums(of: Array) -> tuple[Array, Array]:
        products, terms = np.zeros((len(of), len(weights)), np.float32), np.zeros((len(of), 1), np.float32)
        for term in range(of.shape[1]):
            products = _step(products + _step(of[:, term, None] * _step(weights[:, term])))
            terms = _step(terms + of[:, term, None])
        return products, terms

    def value(of: Array) -> tuple[Array, Array]:
        products, terms = sums(of)
        own = _step(products * scale)
        if minimum is not None:
            own = _step(own - _step(terms * minimum))
        return own, np.isfinite(products) & np.isfinite(terms)

    plain, is_finite = value(x)
    return np.where(is_finite, plain, _step(value(_step(x * np.float32(2.0**-24)))[0] * np.float32(2.0**24)))


def _by_integers(x: Array, weights: Array, scale: Array, minimum: Array, terms: int) -> tuple[Array, Array]:
    """What a chunk in range gives, and whether it is: of all rows and columns."""
    peaks = np.abs(x).max(1, keepdims=True).astype(np.float64)
    lowest = np.where(x == 0, np.inf, np.abs(x)).min(1, keepdims=True)
    p = np.exp2(np.floor(np.log2(np.where(peaks > 0, peaks, 1) * (128 / 127))) + 1)
    in_range = np.isfinite(peaks) & ((peaks == 0) | ((p >= 2.0**-30) & (p <= 2.0**40)))
    is_thin = (peaks > 0) & (lowest < p * 2.0**-31)
    for of_block in (scale, minimum):
        in_range = in_range & ((of_block == 0) | ((np.abs(of_block) >= _OUT[0]) & (np.abs(of_block) < _OUT[1])))
    numbers = np.where(np.isfinite(x) & (p < np.inf), x / p * 2.0**31, 0)
    integers = np.rint(numbers)
    m = np.rint(
        np.where(np.abs(numbers) < 2**24 // min(1024, 1 << terms.bit_length() - 1), numbers - integers, 0) * 2**18
    ).astype(np.int64)
    n = integers.astype(np.int64)

    def number_of(own: Array) -> Array:
        sums = [(part @ own.T.astype(np.int64)).astype(np.float32) for part in (n, m)]
        both: Array = sums[0] + sums[1] * np.float32(2.0**-18)
        return both

    unit = (np.where(peaks > 0, p, 0) * 2.0**-31).astype(np.float32)
    number = number_of(weights)
    in_range = in_range & (~is_thin | (np.abs(number) >= 8192))
    value = number * (unit * scale)
    less = number_of(np.ones_like(weights[:1])) * (unit * minimum)
    return value - less if np.any(minimum) else value, in_range


def wide(kind: OwnBlocks, x: Array, inputs: dict[str, Array]) -> Array:
    """The definition, chunk by chunk."""
    integers = dataclasses.replace(kind, has_float_zeros=False).integers(inputs)
    with np.errstate(all="ignore"):
        scales, minima = kind.scales(inputs)
        differences = kind.integers(inputs)
        size, terms = min(kind.block, 32), x.shape[1]
        scales, minima = (np.repeat(_step(each), kind.block // size, 1) for each in (scales, minima))
        zeros = np.repeat(_step(inputs["w.z"]), kind.block // size, 1) if kind.has_float_zeros else None
        total: Array = np.zeros((len(x), len(integers)), np.float32)
        x = _step(x)
        for segment in range(0, terms, _SEGMENT):
            of_segment = np.zeros_like(total)
            for first in range(segment, min(segment + _SEGMENT, terms), size):
                own, place = x[:, first : first + size], slice(first, first + size)
                scale, minimum = scales[:, first // size], minima[:, first // size]
                less = minimum if zeros is None else _step(scale * zeros[:, first // size])
                value, in_range = _by_integers(own, integers[:, place], scale, less, terms)
                other = _term_by_term(own, differences[:, place], scale, minimum if kind.has_minima else None)
                of_segment = _step(of_segment + np.where(in_range, value, other))
            total = _step(total + of_segment)
    return total


def check(device: dml.Device, kind: OwnBlocks, inputs: dict[str, Array]) -> tuple[Array, list[str]]:
    """Results, and the kernels that gave them."""
    graph = kind.graph(device, inputs, dml.FLOAT32, fuse=True)
    found = device.run(graph, inputs)["y"]
    expected = wide(kind, inputs["x"], inputs)
    same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
    assert same.all(), (kind, variants_of(graph), np.argwhere(~same)[:4], found[~same][:4], expected[~same][:4])
    return found, variants_of(graph)


def rows_of(kind: OwnBlocks, rows: int, columns: int, terms: int) -> dict[str, Array]:
    inputs = kind.inputs(columns, terms)
    inputs["x"] = np.random.default_rng(rows).standard_normal((rows, terms)).astype(np.float32)
    return inputs


@pytest.mark.parametrize("kernels", ["its own", "a GPU's"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_have_the_bits_of_the_definition(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: OwnBlocks, kernels: str
) -> None:
    """And errors below those that are stated, for each type and few rows and more."""
    if kernels == "a GPU's":
        computes_as_gpu(monkeypatch, device, registers=256)
    for rows, columns, terms in ((1, 24, 2048), (9, 9, 1280)):
        inputs = rows_of(kind, rows, columns, terms)
        found, names = check(device, kind, inputs)
        assert any(".wide" in name for name in names)
        numbers, x = kind.numbers(inputs, np.float64), inputs["x"].astype(np.float64)
        scales, minima = kind.scales(inputs)
        if kind.has_float_zeros:
            minima = inputs["w.z"] * scales
        own = dataclasses.replace(kind, has_float_zeros=False).integers(inputs)
        parts = np.abs(own) * np.repeat(np.abs(scales), kind.block, 1).astype(np.float64)
        magnitudes = np.abs(x) @ (parts + np.repeat(np.abs(minima), kind.block, 1)).T
        units = np.abs(found - x @ numbers.T) / magnitudes * 2.0**24
        size = min(kind.block, 32)
        assert units.max() < _SEGMENT // size + -(-terms // _SEGMENT) + 40


@pytest.mark.parametrize("kernels", ["its own", "a GPU's"])
def test_rare_terms_and_scales_have_the_bits_of_the_definition(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kernels: str
) -> None:
    """Denormals, infinities, NaN, sums that vanish, and sums of terms that no number of 32 bits holds."""
    if kernels == "a GPU's":
        computes_as_gpu(monkeypatch, device, registers=256)
    for kind in (_WITH_MINIMA[0], KINDS[1], _WITH_FLOATS):
        for unusual in (0.0, 1e-39, 1e-20, 1e37, 3e38, np.inf, np.nan):
            inputs = rows_of(kind, 3, 24, 1280)
            inputs["x"][1, 40:48] = unusual
            inputs["x"][0] *= np.float32(1e-34)
            inputs["x"][2] *= np.float32(1e-30)
            inputs["x"][2, :16] = 1e-42
            inputs["w.s"][3, 2], inputs["w.s"][11, 0] = 0.0, 6e-8
            with np.errstate(all="ignore"):
                inputs["w.s"][5, 1] = np.float16(unusual)
            if kind.has_float_zeros:
                inputs["w.z"][7, 3], inputs["w.z"][8, 3] = 1e-41, 1e-20
            check(device, kind, inputs)


@pytest.mark.parametrize("kernels", ["its own", "a GPU's"])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[6], _WITH_FLOATS], ids=str)
def test_halves_have_the_bits_of_the_definition(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, kind: OwnBlocks, kernels: str
) -> None:
    """Rows of FLOAT16 by weights that are no integers of one plane times a scale."""
    if kernels == "a GPU's":
        computes_as_gpu(monkeypatch, device, registers=256)
    inputs = rows_of(kind, 9, 24, 1280)
    inputs["x"] = inputs["x"].astype(np.float16)
    if kind.has_float_zeros:
        inputs["w.z"], inputs["w.s"] = inputs["w.z"].astype(np.float16), inputs["w.s"]
    graph = kind.graph(device, inputs, dml.FLOAT16, fuse=True)
    expected = wide(kind, inputs["x"].astype(np.float32), inputs).astype(np.float16)
    assert device.run(graph, inputs)["y"].tobytes() == expected.tobytes(), variants_of(graph)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8])
def test_a_row_has_the_same_bits_among_any_number(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """By kernels of one, two and four rows, of GPUs with few registers and many."""
    kind = _WITH_MINIMA[0]
    inputs = rows_of(kind, 13, 20, 1024 + 256)
    whole = device.run(kind.graph(device, inputs, dml.FLOAT32, fuse=True), inputs)["y"]
    some = dict(inputs, x=inputs["x"][:rows])
    for registers in (None, 64, 128, 256):
        if registers is not None:
            computes_as_gpu(monkeypatch, device, registers)
        found = device.run(kind.graph(device, some, dml.FLOAT32, fuse=True), some)["y"]
        assert found.tobytes() == whole[:rows].tobytes(), registers


def test_the_smallest_devices_have_kernels_for_every_kind() -> None:
    """With 16 KiB of shared memory, work groups of 128 and few registers: as few as Vulkan has."""
    least = dataclasses.replace(GPU, shared_memory=16384, work_group_size=128, registers=64)
    for bits, block, rows, is_gated in itertools.product((2, 4, 8), (8, 16, 32), (1, 4), (False, True)):
        if block < 16 and bits != 8:
            continue
        weights = BlockWeights(dml.FLOAT32, bits, False, 64, 4096, 1, 4096, Blocks(block, 1, 1, 4096 // block))
        kernel = rows_kernel(rows, 4096, weights, least, is_gated=is_gated)
        assert kernel.segments and kernel in list(rows_kernels(dml.FLOAT32))


@pytest.mark.parametrize(("block", "rows", "terms"), [(16, 9, 16384), (32, 9, 18944), (32, 1, 65536)])
def test_long_rows_are_computed_to_their_end(device: dml.Device, block: int, rows: int, terms: int) -> None:
    """One row is not finite: loops have their most turns, of as many rows at once as processors can end."""
    kind = OwnBlocks(2, block, np.uint8, has_minima=True)
    inputs = rows_of(kind, rows, 16, terms)
    inputs["x"][-1, -1] = np.inf
    check(device, kind, inputs)


_ABLE = Target(has_exact_halves=True, shared_memory=49152, work_group_size=1024, buffers=16, buffer_size=2**30)
_TILES = {
    "from memory": ExactTile(1, 1, 1, 1, 2, wide=dml.FLOAT32),
    "shared": ExactTile(1, 1, 2, 1, 1, True, wide=dml.FLOAT32),
}
_OF_TILES = {
    "Q4_K from memory": ("from memory", _WITH_MINIMA[0]), "Q6_K shared": ("shared", KINDS[6]),
    "Q5_K shared": ("shared", _WITH_MINIMA[1]), "IQ4_NL from memory": ("from memory", KINDS[11]),
    "Q3_K from memory": ("from memory", KINDS[9]), "Q8_0 shared": ("shared", OwnBlocks(8, 32, zero=128)),
    "floats shared": ("shared", _WITH_FLOATS), "MXFP4 shared": ("shared", KINDS[10]),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.sweep) for name in _OF_TILES])
def test_matrices_have_the_bits_of_the_definition(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Rare terms and scales, and rows graded by powers of two; no processor has such matrices: they are imitated."""
    where, kind = _OF_TILES[name]
    tile = _TILES[where]
    variant = tile.variant({3: 2, 5: 4, 6: 4}.get(kind.bits, kind.bits), min(kind.block, 32), is_gated=False)
    imitate_matrices(monkeypatch, {variant.name: variant})
    monkeypatch.setattr(packed_matrices, "tile_for", lambda *_: tile)
    monkeypatch.setattr(packed_matrices, "CORES", 0 if where == "shared" else 1000)
    inputs = rows_of(kind, 19, 20, 1024 + 256)
    x = inputs["x"]
    for row, unusual in enumerate((0.0, 1e-39, 1e-20, 1e37, 3e38, np.inf, -np.inf, np.nan)):
        x[row, 40:48] = unusual
    x[8] *= np.float32(1e-34)
    x[9:13] *= np.exp2(np.random.default_rng(5).integers(-40, 41, (4, x.shape[1]))).astype(np.float32)
    x[13:15] *= np.exp2(np.random.default_rng(6).integers(-16, 1, (2, x.shape[1]))).astype(np.float32)
    x[15, 1::2] = -x[15, ::2]
    if not kind.has_exponents:
        inputs["w.s"][3, 2], inputs["w.s"][11, 0], inputs["w.s"][5, 1], inputs["w.s"][16, 0] = 0.0, 6e-8, np.inf, np.nan
    with dml.Device(on_llvmpipe(benches)[0].device.info.index) as device:
        monkeypatch.setattr(dml.Device, "target", property(lambda _: _ABLE))
        _, names = check(device, kind, inputs)
    assert variant.name in names
