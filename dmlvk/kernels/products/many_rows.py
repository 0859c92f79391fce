"""Tiles of many rows by packed weights: what those have in common that multiply bytes, matrices, or chunk by chunk."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from dmlvk.datatypes import DataType
from dmlvk.kernels.products import packed_integers
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm


@dataclasses.dataclass(frozen=True)
class ManyRows:
    """A product that is computed in tiles."""

    desc: Gemm  # as of numbers
    product: Product  # the same
    weights: BlockWeights  # what its second matrix is made of
    operands: Sequence[Region]  # as all kernels of these products bind them
    constants: Mapping[str, int]  # the specialization constants that these have in common
    tiles: tuple[int, int]  # of rows, and of columns

    @property
    def chunk(self) -> int:
        return packed_integers.chunk_terms(self.weights)

    @property
    def chunks(self) -> int:
        return -(-self.product.terms // self.chunk)


@dataclasses.dataclass(frozen=True)
class ManyRowsTile(ABC):
    """What a work group computes at once."""

    down: int  # invocations, or subgroups, downwards
    across: int  # and across
    rows: int  # of each, or matrices of rows
    columns: int  # of each, or matrices of columns; with a gate every other one is of its weights

    side: ClassVar[int]  # rows and columns of what each multiplies at once
    lanes: ClassVar[int]  # invocations of each
    source: ClassVar[str]  # of the shader
    leaves_sums: ClassVar[bool] = False  # whether results are always finished by another kernel

    @property
    def chunks_of(self) -> DataType | None:
        """The data type of rows that are multiplied chunk by chunk; ``None``: by integers."""
        return None

    @property
    @abstractmethod
    def shared_memory(self) -> int:
        """Bytes of a work group, at most."""

    @abstractmethod
    def line_bytes(self, chunk: int) -> int:
        """Bytes of a row's chunk of so many terms, as the kernel in front makes it."""

    @property
    def tile_rows(self) -> int:
        return self.down * self.rows * self.side

    @property
    def invocations(self) -> int:
        return self.lanes * self.down * self.across

    def tile_columns(self, *, is_gated: bool) -> int:
        return self.across * self.columns * self.side // (2 if is_gated else 1)

    def variant(self, bits: int, chunk: int, *, is_gated: bool) -> ShaderVariant:
        way, given = self._compiled()
        sizes = {"ACROSS": self.across, "ROWS": self.rows, "COLUMNS": self.columns}
        defines = {name: f"{size}u" for name, size in sizes.items()}
        defines |= packed_integers.defines_of(self.chunks_of, bits, chunk, Target()) | given
        name = f"blocks.{defines['OPERAND']}.{bits}.{way}.{'x'.join(map(str, (self.down, *sizes.values())))}.{chunk}"
        if is_gated:
            defines["IS_GATED"] = "1"
            name += ".gated"
        return ShaderVariant(name, self.source, tuple(sorted(defines.items())))

    @abstractmethod
    def _compiled(self) -> tuple[str, dict[str, str]]:
        """What stands for the way in the shader's name, and further definitions."""

    @abstractmethod
    def constants(self, of: ManyRows, *, writes_sums: bool) -> dict[str, int]:
        """The specialization constants that it has besides those of all kernels of packed weights."""

    @abstractmethod
    def add_rows(self, builder: ProgramBuilder, of: ManyRows) -> Region:
        """Adds the kernel that makes of rows what this one multiplies, and returns where that lies."""
