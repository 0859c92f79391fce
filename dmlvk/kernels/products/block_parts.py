"""Sums of products with packed weights that a kernel makes in parts, and another one adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dmlvk.datatypes import float32_bits
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.products.matrix import Product
from dmlvk.kernels.program import ProgramBuilder, Region
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators import Gemm


def product_parameters(desc: Gemm, product: Product, tiles: tuple[int, int]) -> tuple[int, ...]:
    """What all kernels of these products are told behind the number of their work items.

    Args:
        desc: the product, as of numbers.
        tiles: of rows, and of columns.
    """
    steps = (*product.left[:2], *product.others[4:6], *product.others[8:10])  # of the addend, and of the output
    sizes = (product.rows, product.columns, product.terms, *tiles)
    return (*sizes, *steps, float32_bits(desc.alpha), float32_bits(desc.beta))


def totals_variant(bits: int, given: Mapping[str, str], way: str = "totals", *, is_gated: bool) -> ShaderVariant:
    """The shader that adds sums of parts.

    Args:
        bits: of a weight.
        given: preprocessor definitions, besides those that all have.
        way: what stands for them in its name.
        is_gated: whether there are sums of a gate, too.
    """
    defines = {"OPERAND": "float16", "OPERAND_BITS": "16", "WEIGHT_BITS": str(bits), "HAS_PARTS": "1", **given}
    name = f"blocks.{defines['OPERAND']}.{bits}.{way}"
    if is_gated:
        defines["IS_GATED"] = "1"
        name += ".gated"
    return ShaderVariant(name, "matrix/block_totals.comp", tuple(sorted(defines.items())))


def add_in_parts(
    builder: ProgramBuilder,  # to which they are added
    product: Product,
    operands: Sequence[Region],
    makes: PlainKernel,  # the first kernel, whose parameters behind the first one are those of the second, too
    totals: ShaderVariant,  # the second one's shader
    constants: Mapping[str, int],  # the specialization constants of the first one
    *,
    parts: int,
    part_terms: int,
    is_gated: bool,  # whether there are sums of a gate, too
    further: Sequence[Region] = (),  # what the first kernel binds behind the operands
) -> None:
    """Adds the kernel that makes sums of parts, and the one that adds them."""
    sums = product.rows * product.columns * (2 if is_gated else 1)
    region = builder.scratch(parts * sums * 4)
    builder.launch(makes, [*operands, *further], [region], label="packed weights")
    items = product.rows * product.columns // (2 if constants["OUTPUT_HAS_PAIRS"] else 1)
    kernel = PlainKernel(
        totals.name,
        launch_size(builder.operator_name, items),
        {**constants, "PART_TERMS": part_terms},
        (items, *makes.parameters[1:]),
    )
    builder.launch(kernel, [*operands, region], [builder.writes["output_tensor"]], label="sums of parts")
