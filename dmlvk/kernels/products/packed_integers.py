"""Products of rows with packed weights by a definition of their own: docs/notes/exact-products.md has it.

Rows of FLOAT16 are multiplied by exact integers where weights are integers of one plane, all others chunk by chunk. A
row's bits do not depend on how many rows there are, nor on the kernel. Of up to four rows each invocation keeps its
terms, and goes through columns with them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from dmlvk.datatypes import DataType
from dmlvk.errors import DeviceLimitError
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products.block_parts import product_parameters
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.products.matrix_tiles import CORES
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.target import MAX_LOOP_ITERATIONS, Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm
from dmlvk.operators.type_groups import FLOATS

SEGMENT = 1024
"""As in ``shaders/patterns/products/block_products.glsl``."""

BITS = (2, 4, 8)
_CHUNK = 32
CHUNKS = (16, _CHUNK)
_BYTES_CHUNK = 8  # Of integers of 8 bits alone, chunk by chunk

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
"""Of an invocation where there are twice as many, chunk by chunk: each weight is unpacked once for all."""

_PROCESSOR_GROUPS = 64
"""Work groups, at least, that processors share."""

_AT_ONCE = 2
_CORE_INVOCATIONS = {1: 512, 2: 256, 4: 256}
"""Invocations of a core that keep it busy, by their rows: with fewer it waits, with more each has few columns."""


def is_exact(weights: BlockWeights) -> bool:
    """Whether products with such weights are computed so: by their format alone, for any number of rows."""
    are_integers = weights.is_of_integers and weights.bits in BITS
    has_chunks = weights.lies_along_terms and chunk_terms(weights) in CHUNKS
    return weights.data_type is DataType.FLOAT16 and are_integers and has_chunks


def has_own_order(weights: BlockWeights) -> bool:
    """Whether products have other bits than DEQUANTIZE and GEMM give: by integers, or chunk by chunk."""
    return weights.lies_along_terms


def chunk_terms(weights: BlockWeights) -> int:
    """Terms that a row has integers of in common: they share a scale."""
    return weights.common_block(_CHUNK)


@dataclasses.dataclass(frozen=True)
class RowsKernel:
    """A kernel of ``shaders/patterns/products/packed_rows.glsl``.

    Attributes:
        bits: of a weight.
        chunk: terms of an invocation.
        rows: of each invocation.
        invocations: of a work group.
        is_gated: whether there are weights of a gate.
        chunks_of: the data type of rows that are multiplied chunk by chunk; ``None``: by integers.
    """

    bits: int
    chunk: int
    rows: int
    invocations: int
    is_gated: bool = False
    chunks_of: DataType | None = None

    @property
    def sides(self) -> int:
        return 2 if self.is_gated else 1

    @property
    def stage_columns(self) -> int:
        """Columns whose sums are added at one time."""
        is_large = self.invocations > 256 or self.chunk == _BYTES_CHUNK  # else 16 KiB would be too few
        return max(_STAGE_RESULTS // (self.rows * self.sides * (1 + is_large)), 2)

    @property
    def at_once(self) -> int:
        """Columns whose weights are on their way at one time: of long bodies one, for caches of instructions."""
        most = _AT_ONCE if self.chunks_of is None else 1
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
            **defines_of(self.chunks_of, self.bits, self.chunk, target),
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
        groups = CORES * _CORE_INVOCATIONS[self.rows] // self.invocations
        columns = -(-product.columns * tiles // groups)
        step = 2 * self.at_once
        return min(-(-columns // step) * step, _MOST_COLUMNS)


def defines(bits: int, chunk: int, target: Target) -> dict[str, str]:
    """Preprocessor definitions that all such kernels are compiled with."""
    return {
        "OPERAND": "float16",
        "OPERAND_BITS": "16",
        "WEIGHT_BITS": str(bits),
        "CHUNK": f"{chunk}u",
        "HAS_DOT_PRODUCT": str(int(target.has_integer_dot_product)),
    }


def defines_of(chunks_of: DataType | None, bits: int, chunk: int, target: Target) -> dict[str, str]:
    """The same of rows that are multiplied by integers or, of a data type, chunk by chunk."""
    if chunks_of is None:
        return defines(bits, chunk, target)
    own = {"OPERAND": chunks_of.name.lower(), "OPERAND_BITS": str(chunks_of.size_in_bits), "IS_CHUNKED": "1"}
    return {**own, "WEIGHT_BITS": str(bits), "CHUNK": f"{chunk}u"}


def _variant(way: str, given: Mapping[str, str], *, is_of_experts: bool, size: str = "") -> ShaderVariant:
    whose = "experts" if is_of_experts else "blocks"
    source = f"matrix/{'expert_' * is_of_experts}packed_{way}.comp"
    name = f"{whose}.{given['OPERAND']}.{given['WEIGHT_BITS']}"
    if "IS_CHUNKED" in given:
        name += f".chunk_{way}{size}.{given['CHUNK'][:-1]}"
    else:
        kind = "dot" if given["HAS_DOT_PRODUCT"] == "1" else "plain"
        name += f".integer_{way}{size}.{given['CHUNK'][:-1]}.{kind}"
    return ShaderVariant(name, source, tuple(sorted(given.items())))


def rows_kernels(chunks_of: DataType | None = None, *, is_of_experts: bool = False) -> Iterator[RowsKernel]:
    """All kernels of few rows; of rows that have weights of their own each, or of others."""
    all_rows, sides = (_ROWS[:1], (False,)) if is_of_experts else (_ROWS, (False, True))
    if chunks_of is DataType.FLOAT16:
        sides = (False,)
    for each in itertools.product(BITS, (_BYTES_CHUNK, *CHUNKS), all_rows, _INVOCATIONS, sides):
        kernel = RowsKernel(*each, chunks_of)
        has_chunk = kernel.chunk != _BYTES_CHUNK or (chunks_of is not None and kernel.bits == _BYTES_CHUNK)
        if has_chunk and kernel.segments:
            yield kernel


def variants(*, is_of_experts: bool = False) -> Iterator[ShaderVariant]:
    """The shaders; of rows that have weights of their own each, or of others."""
    for bits, chunk in itertools.product(BITS, CHUNKS):
        yield from _processor_variants(defines(bits, chunk, Target()), 1, is_of_experts=is_of_experts)
    for kernel in rows_kernels(is_of_experts=is_of_experts):  # of which those of some sizes have a shader in common
        for has_dot_product in (False, True):
            yield kernel.variant(Target(has_integer_dot_product=has_dot_product), is_of_experts=is_of_experts)
    for chunks_of in FLOATS:
        for kernel in rows_kernels(chunks_of, is_of_experts=is_of_experts):
            yield kernel.variant(Target(), is_of_experts=is_of_experts)
            if kernel.invocations == _INVOCATIONS[-1] and not kernel.is_gated and kernel.rows != 2:
                own = defines_of(chunks_of, kernel.bits, kernel.chunk, Target())
                yield from _processor_variants(own, kernel.rows, is_of_experts=is_of_experts)


def _processor_variants(own: Mapping[str, str], rows: int, *, is_of_experts: bool) -> Iterator[ShaderVariant]:
    for shares_terms in (False, True):
        yield _processor_variant(own, rows, shares_terms=shares_terms, is_of_experts=is_of_experts)


def rows_kernel(rows: int, terms: int, weights: BlockWeights, target: Target, *, is_gated: bool) -> RowsKernel:
    most = next((each for each in _ROWS if rows <= each), _ROWS[-1])
    chunk, chunks_of = chunk_terms(weights), None if is_exact(weights) else weights.data_type
    kernels = [
        RowsKernel(weights.bits, chunk, each, invocations, is_gated, chunks_of)
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


def _processor_columns(terms: int, chunk: int, rows: int, *, is_chunked: bool) -> int:
    """Columns of an invocation, at most: with all that may be computed again its loops have few enough turns.

    Raises:
        DeviceLimitError: one column has too many.
    """
    chunks, segments = -(-terms // chunk), -(-terms // SEGMENT)
    # Turns by which a result is computed again, those that end a loop among them: by ``exact_total``, or rests.
    again = chunks * (chunk // 2 + 6) if is_chunked else chunks * (chunk + 2) + terms // _CHUNK
    of_column = chunks * is_chunked + rows * (again + (4 if is_chunked else 2) * segments + 4)
    of_all = (1 + is_chunked) * chunks + 4 * segments + 4
    if of_column + of_all > MAX_LOOP_ITERATIONS:
        raise DeviceLimitError(
            f"packed weights with {terms} terms in blocks of {chunk} take up to {of_column + of_all} turns of loops, "
            f"which processors end after {MAX_LOOP_ITERATIONS}"
        )
    return min(_PROCESSOR_COLUMNS, (MAX_LOOP_ITERATIONS - of_all) // of_column)


def _processor_shape(product: Product, chunk: int, *, is_chunked: bool, is_of_experts: bool) -> tuple[int, int]:
    """Rows and columns of an invocation, at most.

    Raises:
        DeviceLimitError: one result has too many terms.
    """
    if product.rows >= 2 * _PROCESSOR_ROWS and is_chunked and not is_of_experts:
        with contextlib.suppress(DeviceLimitError):
            return _PROCESSOR_ROWS, _processor_columns(product.terms, chunk, _PROCESSOR_ROWS, is_chunked=True)
    return 1, _processor_columns(product.terms, chunk, 1, is_chunked=is_chunked)


@dataclasses.dataclass(frozen=True)
class RowsLaunch:
    """How rows are multiplied.

    Attributes:
        variant: the shader.
        invocations: of a work group.
        tiles: of rows, and of columns: a work group each.
        constants: the specialization constants that it has besides those of all kernels of packed weights.
    """

    variant: ShaderVariant
    invocations: int
    tiles: tuple[int, int]
    constants: dict[str, int]


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
    chunk, chunks_of = chunk_terms(weights), None if is_exact(weights) else weights.data_type
    constants = {"BLOCK": chunk, "CHUNKS_ARE_WHOLE": int(product.terms % chunk == 0)}
    if target.is_cpu:
        lanes = -(-product.columns // _PROCESSOR_INVOCATIONS)
        is_chunked = not is_exact(weights)
        rows, most = _processor_shape(product, chunk, is_chunked=is_chunked, is_of_experts=is_of_experts)
        each = max(1, min(most, lanes * product.rows // rows // _PROCESSOR_GROUPS))
        across = each * _PROCESSOR_INVOCATIONS
        tiles = -(-product.rows // rows), -(-product.columns // across)
        own = defines_of(chunks_of, weights.bits, chunk, Target())
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
        "PACKED_HAS_VECTORS": int(weights.chunks_have_vectors(chunk)),
        "GROUP_COLUMNS": across,
    }
    tiles = -(-product.rows // kernel.rows), -(-product.columns // across)
    variant = kernel.variant(target, is_of_experts=is_of_experts)
    return RowsLaunch(variant, kernel.invocations, tiles, constants)


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
    groups = launch.tiles[0] * launch.tiles[1]
    kernel = PlainKernel(
        launch.variant.name,
        launch_size(builder.operator_name, groups * launch.invocations, launch.invocations),
        {**given, **launch.constants},
        (groups, *product_parameters(desc, product, launch.tiles)),
        work_group_size=launch.invocations,
    )
    builder.launch(kernel, operands, [builder.writes["output_tensor"]], label="packed weights")
