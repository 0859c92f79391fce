"""Products of FLOAT16 with packed weights by cooperative matrices have the bits of kernels without them.

No processor here has such matrices: those kernels run with a file in the place of the include that names them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from dmlvk.kernels.products import packed_dots, packed_matrices
from dmlvk.kernels.products.packed_matrices import ExactTile
from dmlvk.kernels.target import Target
from tests.cooperative_modules import imitate_matrices
from tests.packed import of_rows_and_blocks
from tests.targets import on_llvmpipe, variants_of

Array = npt.NDArray[Any]
_ONE, _TWO, _GATED = ExactTile(1, 1, 1, 1, 1), ExactTile(1, 1, 1, 1, 2), ExactTile(1, 1, 1, 2, 1)
_SHARED, _SHARED_GATED = ExactTile(1, 1, 2, 1, 1, True), ExactTile(1, 1, 1, 2, 1, True)
_ABLE = Target(has_exact_halves=True, shared_memory=49152, work_group_size=1024, buffers=16, registers=256)
_NONE, _SOME, _ALL = range(3)  # chunks with third parts


@dataclasses.dataclass(frozen=True)
class Case:
    """A product, or two of which one is the gate of the other."""

    tile: ExactTile
    rows: int
    terms: int
    columns: int
    bits: int
    block: int
    thirds: int
    has_zeros: bool = True
    is_gated: bool = False

    def run(self, device: dml.Device, inputs: dict[str, Array]) -> tuple[Array, list[str]]:
        packing: dict[str, Any] = {"bits": self.bits, "block_size": self.block}
        graph = of_rows_and_blocks(device, inputs, (self.columns, self.terms), **packing)
        return device.run(graph, inputs)["y"], variants_of(graph)

    def inputs(self) -> dict[str, Array]:
        """Rows of every kind: each chunk has one exponent, or terms 2^-17 below its largest one, too."""
        random, blocks = np.random.default_rng(self.rows + self.terms), -(-self.terms // self.block)
        x = random.integers(1024, 2048, (self.rows, self.terms)) * random.choice([-(2.0**-10), 2.0**-10])
        chunks = np.arange(self.terms) // min(self.block, 32)
        if self.thirds != _NONE:
            has_thirds = (chunks % 3 == 1) | (self.thirds == _ALL)
            x[:: 1 if self.thirds == _ALL else 5, has_thirds & (np.arange(self.terms) % 4 > 0)] *= 2.0**-17
        given: dict[str, Array] = {"x": x.astype(np.float16)}
        self._spoil(given["x"])
        for name in ("gate", "w")[not self.is_gated :]:
            random_bytes = (self.columns, blocks * self.block * self.bits // 8)
            given[f"{name}"] = random.integers(0, 256, random_bytes, np.uint8)
            given[f"{name}.s"] = random.uniform(-0.01, 0.01, (self.columns, blocks)).astype(np.float16)
            if self.has_zeros:
                zeros = (self.columns, -(-blocks * self.bits // 8))
                given[f"{name}.z"] = random.integers(0, 256, zeros, np.uint8)
        given["w.s"][self.columns // 2, -1] = np.inf
        return given

    def _spoil(self, x: Array) -> None:
        """Rows that are computed term by term, rows of zeros and of denormals, as far as there are rows."""
        rare = (np.nan, np.inf, -65504, 32512, 2032, -0.0, 6e-8)
        for row, number in enumerate(rare, start=2):
            if row < self.rows:
                x[row, self.terms // 2 :: 1 if abs(number) < 1 else self.terms] = number
                x[row, : self.terms // 2] *= np.float16(abs(number) >= 1 or np.isnan(number))


_CASES = {
    "tail of a chunk": Case(_ONE, 1, 91, 5, 4, 32, _SOME),
    "tiles of rows": Case(_ONE, 70, 128, 20, 4, 32, _ALL),
    "segments": Case(_TWO, 9, 2208, 18, 4, 16, _SOME, has_zeros=False),
    "bytes": Case(_TWO, 9, 352, 20, 8, 32, _SOME),
    "two bits": Case(_ONE, 9, 80, 20, 2, 16, _NONE, has_zeros=False),
    "a gate": Case(_GATED, 9, 139, 19, 4, 32, _SOME, is_gated=True),
    "a gate of bytes": Case(_GATED, 8, 80, 17, 8, 16, _ALL, is_gated=True),
    "shared": Case(_SHARED, 17, 1120, 20, 4, 32, _SOME),
    "shared without thirds": Case(_SHARED, 33, 128, 20, 4, 16, _NONE),
    "shared two bits": Case(_SHARED, 16, 1136, 17, 2, 16, _ALL),
    "a shared gate": Case(_SHARED_GATED, 9, 91, 19, 4, 32, _SOME, is_gated=True),
    "a shared gate of two bits": Case(_SHARED_GATED, 9, 2208, 19, 2, 32, _SOME, has_zeros=False, is_gated=True),
}
_BY_TURNS = [pytest.param(name, marks=() if name == "a shared gate" else pytest.mark.sweep) for name in _CASES]


def _taken_for(target: Target) -> property:
    return property(lambda _: target)


@pytest.mark.parametrize("name", _BY_TURNS)
def test_matrices_give_the_bits_of_kernels_without_them(
    benches: list[Workbench], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever is not finite, vanishes, is odd in size or has third parts; zeros, and those that a format has."""
    case = _CASES[name]
    variant = case.tile.variant(case.bits, min(case.block, 32), is_gated=case.is_gated)
    imitate_matrices(monkeypatch, {variant.name: variant})
    monkeypatch.setattr(packed_matrices, "_FEW_ROWS_OF_MATRICES", 0)
    monkeypatch.setattr(packed_matrices, "CORES", 1000 if case.rows == 9 else 0)
    inputs = case.inputs()
    with dml.Device(on_llvmpipe(benches)[0].device.info.index) as device:
        tiles = (
            (lambda product, _, target: packed_dots.tile_for(product, target), False),
            (lambda *_: case.tile, True),
        )
        results = []
        for tile_for, has_matrices in tiles:
            target = dataclasses.replace(_ABLE, has_exact_halves=has_matrices, buffer_size=2**30)
            monkeypatch.setattr(dml.Device, "target", _taken_for(target))
            monkeypatch.setattr(packed_matrices, "tile_for", tile_for)
            found, used = case.run(device, inputs)
            assert (variant.name in used) == has_matrices, used
            results.append(found)
    expected, found = results
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    is_number = ~np.isnan(expected)
    assert np.array_equal(found.view(np.uint16)[is_number], expected.view(np.uint16)[is_number])
