"""Lowers RESIDUAL_NORMALIZATION: ``shaders/patterns/rows/residual_normalization.glsl``."""

from __future__ import annotations

from collections.abc import Iterator

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.dynamic.sizes import is_multiple
from dmlvk.kernels.kernel import PlainKernel, work_groups
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.residual_normalization import ResidualNormalization
from dmlvk.operators.type_groups import FLOATS

BUFFERS = 6
"""That the kernel binds."""

_INVOCATIONS, _MOST_HELD = 256, 8
"""Of a work group, and the pairs that each of them holds at most: as in the shader."""


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    """The shaders."""
    for data_type in FLOATS:
        bits = ("ELEMENT_BITS", str(data_type.size_in_bits))
        yield ShaderVariant(_name(data_type), "normalization/residual_normalization.comp", (bits,))


def _name(data_type: DataType) -> str:
    return f"residual_normalization.{data_type.name.lower()}"


@lowering(ResidualNormalization)
def lower(desc: ResidualNormalization, target: Target) -> Program:
    """The program of a RESIDUAL_NORMALIZATION."""
    builder = ProgramBuilder(desc, target)
    reads, writes = builder.reads, builder.writes
    rows, length = desc.input_tensor.sizes
    columns, lines = work_groups(rows, 1)
    skip = desc.skip_tensor
    pairs_of_invocation = -(-(length // 2) // _INVOCATIONS)
    held = min(pairs_of_invocation, _MOST_HELD)
    constants = {
        "HELD": held,
        "ALL_ARE_HELD": int(pairs_of_invocation <= _MOST_HELD),
        "TURNS_ARE_WHOLE": int(is_multiple(length, 2 * _INVOCATIONS * max(held, 1))),
        "HAS_SKIP": int(skip is not None),
        "HAS_BIAS": int(desc.bias_tensor is not None),
        "GIVES_SUM": int(desc.sum_tensor is not None),
    }
    repeated = 1 if skip is None else skip.sizes[0]
    parameters = (rows, length // 2, repeated, float32_bits(desc.epsilon))
    kernel = PlainKernel(_name(desc.input_tensor.data_type), (columns, lines, 1), constants, parameters)
    given = reads["input_tensor"]
    operands = [
        given,
        reads.get("skip_tensor", given),
        reads["scale_tensor"],
        reads.get("bias_tensor", given),
    ]
    output = writes["output_tensor"]
    builder.launch(kernel, operands, [output, writes.get("sum_tensor", output)])
    return builder.program()
