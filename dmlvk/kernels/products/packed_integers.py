"""Products of rows with packed weights by a definition of their own: docs/notes/exact-products.md has it.

Rows are multiplied by exact integers: of 24 bits where rows are FLOAT16 and weights integers of one plane, all others
of 32 bits (wide ones). A row's bits do not depend on how many rows there are, nor on the kernel. Of up to four rows
each invocation keeps its terms, and goes through columns with them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products import packed_planes
from dmlvk.kernels.products.block_parts import product_parameters
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.products.matrix_tiles import CORES
from dmlvk.kernels.products.packed_format import (
    BYTES_CHUNK,
    CHUNK,
    SEGMENT,
    WIDTHS,
    chunk_terms,
    defines,
    formats,
    wide_rows,
)
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm

_INVOCATIONS = (64, 128, 256, 512)
_ROWS = (1, 2, 4)
_REGISTERS = {1: 64, 2: 128, 4: 256}
"""That kernels of so many rows want of a driver."""

_USUAL_SUBGROUP = 32
_WIDE_INVOCATIONS = 256
"""Of a work group, at most, where subgroups have more: AMD's GCN has 128 registers for each of more invocations."""

_STAGE_RESULTS = 16
_MOST_COLUMNS = 64
_PROCESSOR_INVOCATIONS = 8
_PROCESSOR_COLUMNS = 8
"""Of an invocation, at most: each makes its rows' integers."""

_PROCESSOR_ROWS = 4
"""Of an invocation where there are twice as many, by wide integers: each weight is unpacked once for all."""

_PROCESSOR_GROUPS = 64
"""Work groups, at least, that processors share."""

_AT_ONCE = 2
_WIDE_CORE = 384  # For one row by wide integers, whose kernels have more than 128 registers
_CORE_INVOCATIONS = {1: 512, 2: 256, 4: 256}
"""Invocations of a core that keep it busy, by their rows: with fewer it waits, with more each has few columns."""


@dataclasses.dataclass(frozen=True)
class RowsKernel:
    """A kernel of ``shaders/patterns/products/packed_rows.glsl``.

    Attributes:
        bits: of a weight.
        chunk: terms of an invocation.
        rows: of each invocation.
        invocations: of a work group.
        is_gated: whether there are weights of a gate.
        wide: the data type of rows that are multiplied by wide integers; ``None``: by those of 24 bits.
    """

    bits: int
    chunk: int
    rows: int
    invocations: int
    is_gated: bool = False
    wide: DataType | None = None

    @property
    def sides(self) -> int:
        return 2 if self.is_gated else 1

    @property
    def stage_columns(self) -> int:
        """Columns whose sums are added at one time."""
        is_large = self.invocations > 256 or self.chunk == BYTES_CHUNK  # else 16 KiB would be too few
        return max(_STAGE_RESULTS // (self.rows * self.sides * (1 + is_large)), 2)

    @property
    def at_once(self) -> int:
        """Columns whose weights are on their way at one time: of long bodies one, for caches of instructions."""
        most = _AT_ONCE if self.wide is None else 1
        return max(1, min(most // self.sides, self.stage_columns // 2))

    @property
    def segments(self) -> int:
        """That a work group has room for."""
        return self.invocations * self.chunk // SEGMENT

    @property
    def shared_memory(self) -> int:
        """Bytes that a work group needs."""
        values = 2 * self.stage_columns * self.rows * self.sides * self.segments * (SEGMENT // self.chunk + 1)
        results = _MOST_COLUMNS * self.rows * self.sides * (self.segments + 1)
        return 4 * (values + results)

    def variant(self, target: Target, *, is_of_experts: bool = False) -> ShaderVariant:
        """The shader, which work groups of all sizes have in common."""
        given = {
            **defines(self.wide, self.bits, self.chunk, target),
            "BLOCK_ROWS": f"{self.rows}u",
            "AT_ONCE": f"{self.at_once}u",
        }
        if self.is_gated:
            given["IS_GATED"] = "1"
        size = f".{self.rows}x{self.at_once}{'.gated' * self.is_gated}"
        return _variant("rows", given, is_of_experts=is_of_experts, size=size)

    def constants(self) -> dict[str, int]:
        """The specialization constants that follow from the work group's size."""
        return {"INVOCATIONS": self.invocations, "STAGE_COLUMNS": self.stage_columns}

    def group_columns(self, product: Product) -> int:
        """Columns of a work group: as many as leave all cores with work."""
        tiles = -(-product.rows // self.rows)
        groups = (
            CORES * (_WIDE_CORE if self.wide and self.rows == 1 else _CORE_INVOCATIONS[self.rows]) // self.invocations
        )
        columns = -(-product.columns * tiles // groups)
        step = 2 * self.at_once
        return min(-(-columns // step) * step, _MOST_COLUMNS)


def _variant(way: str, given: Mapping[str, str], *, is_of_experts: bool, size: str = "") -> ShaderVariant:
    whose = "experts" if is_of_experts else "blocks"
    source = f"matrix/{'expert_' * is_of_experts}packed_{way}.comp"
    width, kind = "wide" if "IS_WIDE" in given else "integer", "dot" if given["HAS_DOT_PRODUCT"] == "1" else "plain"
    name = f"{whose}.{given['OPERAND']}.{given['WEIGHT_BITS']}.{width}_{way}{size}.{given['CHUNK'][:-1]}.{kind}"
    return ShaderVariant(name, source, tuple(sorted(given.items())))


def rows_kernels(wide: DataType | None = None, *, is_of_experts: bool = False) -> Iterator[RowsKernel]:
    """All kernels of few rows; of rows that have weights of their own each, or of others."""
    all_rows, sides = (_ROWS[:1], (False,)) if is_of_experts else (_ROWS, (False, True))
    if wide is DataType.FLOAT16:
        sides = (False,)
    for (bits, chunk), rows, invocations, is_gated in itertools.product(formats(wide), all_rows, _INVOCATIONS, sides):
        kernel = RowsKernel(bits, chunk, rows, invocations, is_gated, wide)
        if kernel.segments:
            yield kernel


def variants(*, is_of_experts: bool = False) -> Iterator[ShaderVariant]:
    """The shaders; of rows that have weights of their own each, or of others."""
    for wide in WIDTHS:
        for bits, chunk in formats(wide):
            all_rows = (1,) if wide is None or is_of_experts else (1, _PROCESSOR_ROWS)
            for rows, shares_terms in itertools.product(all_rows, (False, True)):
                own = defines(wide, bits, chunk, Target())
                yield _processor_variant(own, rows, shares_terms=shares_terms, is_of_experts=is_of_experts)
        for kernel in rows_kernels(wide, is_of_experts=is_of_experts):  # of which those of some sizes share a shader
            for has_dot_product in (False, True):
                yield kernel.variant(Target(has_integer_dot_product=has_dot_product), is_of_experts=is_of_experts)


def rows_kernel(rows: int, terms: int, weights: BlockWeights, target: Target, *, is_gated: bool) -> RowsKernel:
    most = next((each for each in _ROWS if rows <= each), _ROWS[-1])
    chunk, wide = chunk_terms(weights), wide_rows(weights)
    kernels = [
        RowsKernel(weights.bits, chunk, each, invocations, is_gated, wide)
        for each in reversed([each for each in _ROWS if each <= most])
        for invocations in _INVOCATIONS
    ]
    is_wide = target.subgroup_size > _USUAL_SUBGROUP
    most_invocations = min(target.work_group_size, _WIDE_INVOCATIONS if is_wide else _INVOCATIONS[-1])
    kernels = [
        kernel
        for kernel in kernels
        if kernel.segments
        and kernel.shared_memory <= target.shared_memory
        and kernel.invocations <= most_invocations
        and _REGISTERS[kernel.rows] <= target.registers
    ]
    kernels = [kernel for kernel in kernels if kernel.rows == kernels[0].rows]
    segments = -(-terms // SEGMENT)
    return next((kernel for kernel in kernels if kernel.segments >= segments), kernels[-1])


def _processor_variant(own: Mapping[str, str], rows: int, *, shares_terms: bool, is_of_experts: bool) -> ShaderVariant:
    given = {
        **own,
        "BLOCK_ROWS": f"{rows}u",
        "INVOCATIONS": f"{_PROCESSOR_INVOCATIONS}u",
        "MOST_COLUMNS": f"{_PROCESSOR_COLUMNS}u",
        "SHARES_TERMS": str(int(shares_terms)),
    }
    size = f".{rows}" * (rows > 1) + ".shared" * shares_terms
    return _variant("processors", given, is_of_experts=is_of_experts, size=size)


def _processor_columns(terms: int, chunk: int, rows: int, *, is_wide: bool) -> int:
    """Columns of an invocation, at most: with all that may be computed again its loops have few enough turns.

    Raises:
        DeviceLimitError: one column has too many.
    """
    chunks, segments = -(-terms // chunk), -(-terms // SEGMENT)
    # Turns by which a result is computed again, those that end a loop among them: by ``total_of_terms``, or
    # ``plain_total``. A chunk has one turn for its columns, and with rests two.
    again = chunks * (chunk // 2 + 8) if is_wide else terms // CHUNK
    of_column = 2 * chunks + rows * (again + 4 * segments + 4)
    of_all = 5 * chunks + 4 * segments + 4
    if of_column + of_all > MAX_LOOP_ITERATIONS:
        raise DeviceLimitError(
            f"packed weights with {terms} terms in blocks of {chunk} take up to {of_column + of_all} turns of loops, "
            f"which processors end after {MAX_LOOP_ITERATIONS}"
        )
    return min(_PROCESSOR_COLUMNS, (MAX_LOOP_ITERATIONS - of_all) // of_column)


def _processor_shape(product: Product, chunk: int, *, is_wide: bool, is_of_experts: bool) -> tuple[int, int]:
    """Rows and columns of an invocation, at most.

    Raises:
        DeviceLimitError: one result has too many terms.
    """
    if product.rows >= 2 * _PROCESSOR_ROWS and is_wide and not is_of_experts:
        with contextlib.suppress(DeviceLimitError):
            return _PROCESSOR_ROWS, _processor_columns(product.terms, chunk, _PROCESSOR_ROWS, is_wide=True)
    return 1, _processor_columns(product.terms, chunk, 1, is_wide=is_wide)


@dataclasses.dataclass(frozen=True)
class RowsLaunch:
    """How rows are multiplied.

    Attributes:
        variant: the shader.
        invocations: of a work group.
        tiles: of rows, and of columns: a work group each.
        constants: the specialization constants that it has besides those of all kernels of packed weights.
        planes_lines: of how many rows it reads planes (:mod:`dmlvk.kernels.products.packed_planes`); 0: of none.
    """

    variant: ShaderVariant
    invocations: int
    tiles: tuple[int, int]
    constants: dict[str, int]
    planes_lines: int = 0


def rows_launch(
    product: Product, weights: BlockWeights, target: Target, *, is_gated: bool = False, is_of_experts: bool = False
) -> RowsLaunch:
    """What multiplies few rows.

    Args:
        product: the product.
        weights: what its numbers are made of.
        target: the device.
        is_gated: whether there are weights of a gate.
        is_of_experts: whether each row has weights of its own, all of which lie as ``weights`` do.

    Raises:
        DeviceLimitError: on processors, when there are too many terms.
    """
    chunk, wide = chunk_terms(weights), wide_rows(weights)
    has_vectors, are_whole = weights.chunks_have_vectors(chunk), product.terms % chunk == 0
    constants = {"BLOCK": chunk, "CHUNKS_ARE_WHOLE": int(are_whole), "PACKED_HAS_VECTORS": int(has_vectors)}
    if target.is_cpu:
        lanes = -(-product.columns // _PROCESSOR_INVOCATIONS)
        is_wide = wide is not None
        rows, most = _processor_shape(product, chunk, is_wide=is_wide, is_of_experts=is_of_experts)
        each = max(1, min(most, lanes * product.rows // rows // _PROCESSOR_GROUPS))
        across = each * _PROCESSOR_INVOCATIONS
        tiles = -(-product.rows // rows), -(-product.columns // across)
        own = defines(wide, weights.bits, chunk, Target())
        shares_terms = target.has_shuffles
        variant = _processor_variant(own, rows, shares_terms=shares_terms, is_of_experts=is_of_experts)
        return RowsLaunch(variant, _PROCESSOR_INVOCATIONS, tiles, {**constants, "GROUP_COLUMNS": across})
    most = 1 if is_of_experts else _ROWS[-1]
    kernel = rows_kernel(min(product.rows, most), product.terms, weights, target, is_gated=is_gated)
    segments = -(-product.terms // SEGMENT)
    passes = -(-segments // kernel.segments)
    across = kernel.group_columns(product)
    constants |= {
        **kernel.constants(),
        "SEGMENTS_BESIDE": -(-segments // passes),
        "GROUP_COLUMNS": across,
    }
    tiles = -(-product.rows // kernel.rows), -(-product.columns // across)
    variant = kernel.variant(target, is_of_experts=is_of_experts)
    lines = tiles[0] * kernel.rows if wide else 0
    return RowsLaunch(variant, kernel.invocations, tiles, constants, lines)


def add_rows(
    builder: ProgramBuilder,
    desc: Gemm,
    product: Product,
    weights: BlockWeights,
    operands: Sequence[Region],
    given: Mapping[str, int],
    *,
    is_gated: bool,
) -> None:
    """Adds the kernel of few rows.

    Args:
        builder: to which it is added.
        desc: the product, as of numbers.
        product: the same.
        weights: what its numbers are made of.
        operands: as all kernels of these products bind them.
        given: the specialization constants that these have in common.
        is_gated: whether there are weights of a gate.
    """
    launch = rows_launch(product, weights, builder.target, is_gated=is_gated)
    planes = list[Region]()
    if launch.planes_lines:
        planes = [packed_planes.add(builder, desc, weights, operands[0], launch.planes_lines)]
    groups = launch.tiles[0] * launch.tiles[1]
    kernel = PlainKernel(
        launch.variant.name,
        launch_size(builder.operator_name, groups * launch.invocations, launch.invocations),
        {**given, **launch.constants, **({"PART_TERMS": SEGMENT} if planes else {})},
        (groups, *product_parameters(desc, product, launch.tiles)),
        work_group_size=launch.invocations,
    )
    builder.launch(kernel, [*operands, *planes], [builder.writes["output_tensor"]], label="packed weights")
