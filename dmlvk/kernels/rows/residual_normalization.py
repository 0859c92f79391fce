"""Lowers RESIDUAL_NORMALIZATION: ``shaders/patterns/rows/residual_normalization.comp``."""

from __future__ import annotations

from collections.abc import Iterator

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.dynamic.sizes import is_multiple, typical
from dmlvk.kernels.kernel import PlainKernel, work_groups
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.residual_normalization import ResidualNormalization
from dmlvk.operators.type_groups import FLOATS

BUFFERS = 6  # That the kernel binds

_CHAINS = 256  # Invocations that add, as in the shader

_MANY_INVOCATIONS = 1024
"""Of a work group of GPUs that may have so many, for a few rows that are as long: they wait for one another."""

_FEW_ROWS = 64  # Up to so many, a GPU has cores that have nothing else to do

_MOST_KEPT = {DataType.FLOAT16: 2048, DataType.FLOAT32: 1024}
"""Pairs of a row that a work group keeps at most: as in the shader."""


@shader_variants
def variants() -> Iterator[ShaderVariant]:
    for data_type in FLOATS:
        bits = ("ELEMENT_BITS", str(data_type.size_in_bits))
        for invocations in (_CHAINS, _MANY_INVOCATIONS):
            defines = (bits, ("INVOCATIONS", f"{invocations}u"))
            source = "patterns/rows/residual_normalization.comp"
            yield ShaderVariant(_name(data_type, invocations), source, defines)


def _name(data_type: DataType, invocations: int) -> str:
    many = "" if invocations == _CHAINS else f".{invocations}"
    return f"residual_normalization.{data_type.name.lower()}{many}"


@lowering(ResidualNormalization)
def lower(desc: ResidualNormalization, target: Target) -> Program:
    builder = ProgramBuilder(desc, target)
    reads, writes = builder.reads, builder.writes
    rows, length = desc.input_tensor.sizes
    columns, lines = work_groups(rows, 1)
    skip = desc.skip_tensor
    data_type = desc.input_tensor.data_type
    has_room = not target.is_cpu and target.work_group_size >= _MANY_INVOCATIONS
    is_few = has_room and length // 2 >= _MANY_INVOCATIONS and typical(rows) <= _FEW_ROWS
    invocations = _MANY_INVOCATIONS if is_few else _CHAINS
    pairs_of_invocation = -(-(length // 2) // invocations)
    most_loaded = _MOST_KEPT[data_type] // invocations
    loaded = min(pairs_of_invocation, most_loaded)
    constants = {
        "LOADED": loaded,
        "ALL_ARE_LOADED": int(pairs_of_invocation <= most_loaded),
        "TILES_ARE_WHOLE": int(is_multiple(length, 2 * invocations * max(loaded, 1))),
        "HAS_SKIP": int(skip is not None),
        "HAS_BIAS": int(desc.bias_tensor is not None),
        "GIVES_SUM": int(desc.sum_tensor is not None),
    }
    repeated = 1 if skip is None else skip.sizes[0]
    parameters = (rows, length // 2, repeated, float32_bits(desc.epsilon))
    name = _name(data_type, invocations)
    kernel = PlainKernel(name, (columns, lines, 1), constants, parameters, work_group_size=invocations)
    given = reads["input_tensor"]
    operands = [given, reads.get("skip_tensor", given), reads["scale_tensor"], reads.get("bias_tensor", given)]
    output = writes["output_tensor"]
    builder.launch(kernel, operands, [output, writes.get("sum_tensor", output)])
    return builder.program()
