"""Lowers GEMMs whose sizes fill no vectors: operands are copied into rows that do, for kernels of matrices.

Terms that pad are zeros on both sides, and rows and columns that pad are left behind, so that only the tile changes. A
copy takes a pass over memory, which a large product is worth: 4095 x 4095 x 4095 then costs little more than 4096.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dmlvk.datatypes import DataType
from dmlvk.kernels.products.matrix import Product, gemm_product
from dmlvk.kernels.products.matrix_choice import choose
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.target import Target
from dmlvk.operators import ElementWiseIdentity, Gemm, MatrixTransform, OperatorDesc, Padding, PaddingMode
from dmlvk.tensors import TensorDesc

_EIGHT, _STEP = 8, 64
"""Elements that are loaded at once, and terms that the largest tiles take at once."""

_WORTH_A_BYTE = {DataType.FLOAT16: (8, 60), DataType.FLOAT32: (24, math.inf)}
"""Products for each byte that copies move from which on they are worth it: where there are no matrices otherwise, and
where they look for the end of the terms."""

_LEAST_WORK = 2**28  # Products that take as long as the launches of the copies

_MOST_SCRATCH = 2**30


@dataclasses.dataclass(frozen=True)
class PaddedGemm:
    desc: Gemm  # of copies
    # by the Python name of an input that is copied: as it lies, and as it is copied
    copies: dict[str, tuple[TensorDesc, TensorDesc]]
    results: TensorDesc | None  # where results lie in the padded ones; ``None``: they are the output

    @property
    def moved(self) -> int:
        copied = sum(source.size_in_bytes + copy.size_in_bytes for source, copy in self.copies.values())
        return copied + (0 if self.results is None else 3 * self.results.size_in_bytes)


def padded_gemm(desc: Gemm, product: Product, target: Target) -> PaddedGemm | None:
    """A GEMM of copies that has faster kernels; ``None``: there is none that is worth it."""
    worth = _WORTH_A_BYTE.get(product.data_type)
    work = product.batches * product.rows * product.columns * product.terms
    if worth is None or not target.multiplies_matrices_of(product.data_type) or not target.device_arithmetic:
        return None
    has_eights = product.left_has_eights and product.right_has_eights
    is_whole = has_eights and product.output_has_fours and not product.terms % _STEP
    if desc.has_dynamic_sizes or work < _LEAST_WORK or is_whole:
        return None
    rows, columns, terms = _up(product.rows, _EIGHT), _up(product.columns, _EIGHT), _up(product.terms, _STEP)
    elements = product.batches * (rows * terms + terms * columns + 2 * rows * columns)
    if elements * product.data_type.size_in_bits // 8 > min(_MOST_SCRATCH, target.buffer_size):
        return None
    made = _padded(desc, product)
    if made is None or work < worth[int(has_eights)] * made.moved:
        return None
    gains = choose(gemm_product(made.desc, with_eights=True).work(), target).tile.is_cooperative
    return made if gains else None


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _padded(desc: Gemm, product: Product) -> PaddedGemm | None:
    """The GEMM of copies, whatever they cost."""
    if any(size > 1 and not step for tensor in (desc.a_tensor, desc.b_tensor) for size, step in _matrix_axes(tensor)):
        return None
    rows = product.rows if product.left_along_terms else _up(product.rows, _EIGHT)
    columns, terms = _up(product.columns, _EIGHT), _up(product.terms, _STEP)
    outside = desc.output_tensor.sizes[:-2]
    a = (rows, terms) if desc.trans_a is MatrixTransform.NONE else (terms, rows)
    b = (terms, columns) if desc.trans_b is MatrixTransform.NONE else (columns, terms)
    copies = {}
    descs: dict[str, Any] = {}
    wanted = (("a_tensor", a, product.left_has_eights), ("b_tensor", b, product.right_has_eights))
    for name, sizes, has_eights in (*wanted, ("c_tensor", (rows, columns), True)):
        tensor: TensorDesc | None = getattr(desc, name)
        if tensor is not None and not (has_eights and tensor.sizes[-2:] == sizes):
            copy, descs[name] = _copy_of(tensor, (*outside, *sizes))
            copies[name] = copy
    output = desc.output_tensor
    results = None
    if (rows, columns) != output.sizes[-2:] or not product.output_has_fours:
        whole = TensorDesc(output.data_type, (*outside, rows, columns))
        results = TensorDesc(output.data_type, output.sizes, whole.element_strides)
        descs["output_tensor"] = whole
    return PaddedGemm(dataclasses.replace(desc, **descs), copies, results)


def _matrix_axes(tensor: TensorDesc) -> list[tuple[int, int]]:
    return list(zip(tensor.sizes[-2:], tensor.element_strides[-2:], strict=True))


def _copy_of(tensor: TensorDesc, sizes: tuple[int, ...]) -> tuple[tuple[TensorDesc, TensorDesc], TensorDesc]:
    """What is copied and as what, once where a tensor repeats itself; and the copy as an operand of these sizes."""
    repeats = [not step for step in tensor.element_strides]
    once = tuple(1 if again else size for size, again in zip(tensor.sizes, repeats, strict=True))
    copied = tuple(1 if again else size for size, again in zip(sizes, repeats, strict=True))
    source = TensorDesc(tensor.data_type, once, tensor.element_strides)
    copy = TensorDesc(tensor.data_type, copied)
    strides = tuple(0 if again else step for step, again in zip(copy.element_strides, repeats, strict=True))
    return (source, copy), TensorDesc(tensor.data_type, sizes, strides)


def copy_with_zeros_behind(source: TensorDesc, copy: TensorDesc) -> OperatorDesc:
    """What copies a tensor, with zeros behind it along the axes that the copy has longer."""
    missing = [whole - size for whole, size in zip(copy.sizes, source.sizes, strict=True)]
    if not any(missing):
        return ElementWiseIdentity(input_tensor=source, output_tensor=copy)
    return Padding(
        input_tensor=source,
        output_tensor=copy,
        padding_mode=PaddingMode.CONSTANT,
        padding_value=0.0,
        dimension_count=len(missing),
        start_padding=[0] * len(missing),
        end_padding=missing,
    )


def lower_padded(desc: Gemm, padded: PaddedGemm, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    reads = dict(builder.reads)
    for name, (source, copy) in padded.copies.items():
        reads[name] = builder.scratch(copy.size_in_bytes)
        operator = copy_with_zeros_behind(source, copy)
        builder.operator(operator, [builder.reads[name]], [reads[name]], f"{name} in whole vectors")
    output = builder.writes["output_tensor"]
    result: Region = output
    if padded.results is not None:
        result = builder.scratch(padded.desc.output_tensor.size_in_bytes)
    builder.operator(padded.desc, list(reads.values()), [result], "products")
    if padded.results is not None:
        crop = ElementWiseIdentity(input_tensor=padded.results, output_tensor=desc.output_tensor)
        builder.operator(crop, [result], [output], "results without padding")
    return builder.program()
