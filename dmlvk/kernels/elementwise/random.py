"""Lowers RANDOM_GENERATOR: an invocation makes four numbers, which depend on the state and their place alone."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dmlvk.kernels import constants
from dmlvk.kernels.kernel import PlainKernel, launch_size
from dmlvk.kernels.layout import fold_in_order
from dmlvk.kernels.library.named import shader_variants
from dmlvk.kernels.program import Program, ProgramBuilder
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.kernels.variants import ShaderVariant
from dmlvk.operators.random import RandomGenerator


@shader_variants
def variants() -> Iterable[ShaderVariant]:
    for name in ("random_groups", "random_state"):
        yield ShaderVariant(name, f"patterns/elementwise/{name}.comp", ())


@lowering(RandomGenerator)
def lower(desc: RandomGenerator, target: Target) -> Program:
    """The program of a checked description."""
    builder = ProgramBuilder(desc, target)
    state, output = builder.reads["input_state_tensor"], desc.output_tensor
    elements = math.prod(output.sizes)
    groups = -(-elements // 4)
    layout = fold_in_order(output.sizes, [output.element_strides])
    axes = constants.axes(layout.sizes, {"output": layout.strides[0]})
    launch = launch_size(desc.operator_name, groups)
    state_step = desc.input_state_tensor.element_strides[-1]
    kernel = PlainKernel(
        variant="random_groups",
        work_groups=launch,
        constants={**axes, "HAS_FOURS": int(layout.is_contiguous)},
        parameters=(elements, state_step, 0),
    )
    builder.launch(kernel, [state], [builder.writes["output_tensor"]], label="numbers")
    if desc.output_state_tensor is not None:
        step = desc.output_state_tensor.element_strides[-1]
        advance = PlainKernel("random_state", (1, 1, 1), parameters=(groups, state_step, step))
        builder.launch(advance, [state], [builder.writes["output_state_tensor"]], label="state", is_independent=True)
    return builder.program()
