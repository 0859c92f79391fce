"""Rows as planes of bytes, which products with packed weights multiply: once for all products of the rows."""

from __future__ import annotations

from collections.abc import Iterator

from dmlvk.datatypes import DataType
from dmlvk.dynamic.sizes import is_multiple
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products.block_weights import BlockWeights
from dmlvk.kernels.products.matrix import gemm_product
from dmlvk.kernels.products.packed_format import WIDTHS, chunk_terms, wide_rows
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm

_INVOCATIONS, _EIGHT = 256, 8


def line_bytes(wide: DataType | None) -> int:
    """Of a row's chunk: ``shaders/patterns/products/packed_planes.glsl``."""
    return 160 if wide else 128


def _variant(wide: DataType | None) -> ShaderVariant:
    operand = wide or DataType.FLOAT16
    given = (("IS_WIDE", "1"),) * (wide is not None)
    given += (("OPERAND", operand.name.lower()), ("OPERAND_BITS", str(operand.size_in_bits)))
    name = f"blocks.{operand.name.lower()}.{'wide_' * (wide is not None)}planes"
    return ShaderVariant(name, "matrix/packed_planes.comp", given)


def variants() -> Iterator[ShaderVariant]:
    yield from map(_variant, WIDTHS)


PLANES = frozenset(variant.name for variant in variants())


def add(builder: ProgramBuilder, desc: Gemm, weights: BlockWeights, left: Region, lines: int) -> Region:
    """Adds the kernel.

    Args:
        builder: to which it is added.
        desc: the product of the rows, as of numbers.
        weights: of which the chunks and the order of bytes follow.
        left: where the rows lie.
        lines: the rows and those that fill up tiles.

    Returns:
        Where the planes lie.
    """
    product, wide, chunk = gemm_product(desc, with_eights=True), wide_rows(weights), chunk_terms(weights)
    chunks = -(-product.terms // chunk)
    region = builder.scratch(lines * chunks * line_bytes(wide))
    groups = -(-lines * chunks * (chunk // _EIGHT) // _INVOCATIONS)
    has_eights = product.left_along_terms and product.left_has_eights and is_multiple(product.terms, _EIGHT)
    constants = {"CHUNK": chunk, "LEFT_HAS_EIGHTS": int(has_eights), "WORD_PARTS": _EIGHT // weights.bits}
    kernel = PlainKernel(
        _variant(wide).name,
        launch_size(builder.operator_name, groups * _INVOCATIONS),
        constants,
        (groups, product.rows, product.terms, lines, chunks, *product.left[:2]),
    )
    builder.launch(kernel, [left], [region], label="planes of rows")
    return region
