"""Products of rows with packed weights, chunk by chunk, have the bits of their definition, among any number of rows.

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
from dmlvk.kernels.products.block_weights import Blocks, BlockWeights
from dmlvk.kernels.products.packed_integers import rows_kernel, rows_kernels
from dmlvk.kernels.target import GPU
from tests.graphs.test_packed_weights import OWN_BLOCKS, OwnBlocks
from tests.targets import computes_as_gpu, variants_of

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


def chunked(kind: OwnBlocks, x: Array, inputs: dict[str, Array]) -> Array:
    """The definition, step by step, by NumPy's FLOAT32; denormals are zeros."""
    integers = kind.integers(inputs)
    with np.errstate(all="ignore"):
        scales, minima = kind.scales(inputs)

    def step(numbers: Array) -> Array:
        single: Array = numbers.astype(np.float32)
        return np.where(np.abs(single) < np.finfo(np.float32).tiny, np.float32(0), single)

    def sums(of: Array, weights: Array) -> tuple[Array, Array]:
        products, terms = np.zeros((len(of), len(weights)), np.float32), np.zeros((len(of), 1), np.float32)
        for term in range(of.shape[1]):
            products = step(products + step(of[:, term, None] * step(weights[:, term])))
            terms = step(terms + of[:, term, None])
        return products, terms

    size, terms = min(kind.block, 32), x.shape[1]
    scales, minima = (np.repeat(step(each), kind.block // size, 1) for each in (scales, minima))
    total: Array = np.zeros((len(x), len(integers)), np.float32)
    with np.errstate(all="ignore"):
        x = step(x)
        for segment in range(0, terms, _SEGMENT):
            of_segment = np.zeros_like(total)
            for first in range(segment, min(segment + _SEGMENT, terms), size):
                own, weights = x[:, first : first + size], integers[:, first : first + size]
                scale, minimum = scales[:, first // size], minima[:, first // size]
                products, added = sums(own, weights)
                value = step(products * scale)
                if kind.has_minima:
                    value = step(value - step(added * minimum))
                small, small_added = sums(step(own * np.float32(2.0**-24)), weights)
                other = step(small * scale)
                if kind.has_minima:
                    other = step(other - step(small_added * minimum))
                plain = np.isfinite(products) & np.isfinite(added)
                of_segment = step(of_segment + np.where(plain, value, step(other * np.float32(2.0**24))))
            total = step(total + of_segment)
    return total


def check(device: dml.Device, kind: OwnBlocks, inputs: dict[str, Array]) -> tuple[Array, list[str]]:
    """Results, and the kernels that gave them."""
    graph = kind.graph(device, inputs, dml.FLOAT32, fuse=True)
    found = device.run(graph, inputs)["y"]
    expected = chunked(kind, inputs["x"], inputs)
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
        found, (name,) = check(device, kind, inputs)
        assert ".chunk_" in name
        numbers, x = kind.numbers(inputs, np.float64), inputs["x"].astype(np.float64)
        scales, minima = kind.scales(inputs)
        parts = np.abs(kind.integers(inputs)) * np.repeat(np.abs(scales), kind.block, 1).astype(np.float64)
        magnitudes = np.abs(x) @ (parts + np.repeat(np.abs(minima), kind.block, 1)).T
        units = np.abs(found - x @ numbers.T) / magnitudes * 2.0**24
        size = min(kind.block, 32)
        assert units.max() < _SEGMENT // size + size + -(-terms // _SEGMENT) + 5


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
    expected = chunked(kind, inputs["x"].astype(np.float32), inputs).astype(np.float16)
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
