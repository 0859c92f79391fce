"""Lowers NONZERO_COORDINATES: elements are counted by segments, counts summed up in levels, then rows are written."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dmlvk.kernels import constants
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.nonzero import NonzeroCoordinates

SEGMENT = 64  # Elements that an invocation goes through, and numbers of which it makes a sum

_LEVELS = 5
_ALIGNMENT = 4  # words


def variants() -> Iterable[ShaderVariant]:
    for bits in (8, 16, 32):
        for name in ("nonzero_counts", "nonzero_coordinates"):
            yield ShaderVariant(f"{name}.{bits}bits", f"patterns/movement/{name}.comp", (("UNIT_BITS", str(bits)),))
    yield ShaderVariant("prefix_numbers", "patterns/movement/prefix_numbers.comp", ())


@lowering(NonzeroCoordinates)
def lower(desc: NonzeroCoordinates, target: Target) -> Program:
    """The program of a checked description."""
    source, rows = desc.input_tensor, desc.output_coordinates_tensor
    elements = math.prod(source.sizes)
    counts = [-(-elements // SEGMENT)]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // SEGMENT))
    assert len(counts) <= _LEVELS + 1  # 64^6 is more than any tensor has
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + -(-count // _ALIGNMENT) * _ALIGNMENT)

    name, bits = desc.operator_name, source.data_type.size_in_bits
    builder = ProgramBuilder(desc, target)
    read, coordinates = builder.reads["input_tensor"], builder.writes["output_coordinates_tensor"]
    numbers = builder.scratch(4 * starts[-1])
    magnitude = (1 << (bits - 1)) - 1 if source.data_type.is_float else (1 << bits) - 1
    row_step, column_step = rows.element_strides[-2:]
    elements_of = {
        **constants.axes(source.sizes[::-1], {"input": source.element_strides[::-1]}),
        "MAGNITUDE": magnitude,
        "COLUMNS": rows.sizes[-1],
        "ROW_STEP": row_step,
        "COLUMN_STEP": column_step,
    }
    groups = launch_size(name, counts[0])
    levels = {f"LEVEL_{level}": start for level, start in enumerate([*starts[1:5], *[0] * 4][:4], 1)}
    for level in range(len(counts)):
        if level == 0:
            kernel = PlainKernel(f"nonzero_counts.{bits}bits", groups, elements_of, (elements,))
            builder.launch(kernel, [read], [numbers], label="counts")
        below = numbers.part(4 * starts[level], 4 * counts[level])
        is_last = level == len(counts) - 1
        above = builder.writes["output_count_tensor"]
        if not is_last:
            above = numbers.part(4 * starts[level + 1], 4 * counts[level + 1])
        launch = launch_size(name, -(-counts[level] // SEGMENT))
        prefix = PlainKernel("prefix_numbers", launch, parameters=(counts[level],))
        builder.launch(prefix, [], [below, above], label="how many come before")
    kernel = PlainKernel(
        f"nonzero_coordinates.{bits}bits", groups, {**elements_of, "LEVELS": len(counts), **levels}, (elements,)
    )
    total = builder.writes["output_count_tensor"]
    builder.launch(kernel, [read, numbers, total], [coordinates], label="coordinates")
    return builder.program()
