"""Lowers BATCH_NORMALIZATION_GRAD: steps of other operators on FLOAT32 tensors."""

from __future__ import annotations

import dataclasses

from dmlvk.datatypes import DataType, float32_bits
from dmlvk.kernels.elementwise.elementwise import lower_elementwise_shader
from dmlvk.kernels.program import Program, ProgramBuilder, Region
from dmlvk.kernels.registry import lowering
from dmlvk.kernels.target import Target
from dmlvk.operators import BatchNormalizationGrad, ReduceFunction, operator_desc
from dmlvk.tensors import TensorDesc, packed_strides

Operand = tuple[TensorDesc, Region]


class _ScratchSteps:
    """Steps on FLOAT32 tensors in scratch memory."""

    def __init__(self, desc: BatchNormalizationGrad, target: Target) -> None:
        self.builder = ProgramBuilder(desc, target)

    def scratch(self, sizes: tuple[int, ...]) -> Operand:
        tensor = TensorDesc(DataType.FLOAT32, sizes, strides=packed_strides(sizes))
        return tensor, self.builder.scratch(tensor.size_in_bytes)

    def float32(self, tensor: TensorDesc, region: Region) -> Operand:
        """An operand, widened where it is FLOAT16."""
        if tensor.data_type is DataType.FLOAT32:
            return tensor, region
        wide = self.scratch(tuple(tensor.sizes))
        self._copy("CAST", (tensor, region), wide)
        return wide

    def result(self, tensor: TensorDesc, region: Region) -> Operand:
        """Where a step writes what :meth:`finish` brings to an output."""
        return (tensor, region) if tensor.data_type is DataType.FLOAT32 else self.scratch(tuple(tensor.sizes))

    def finish(self, made: Operand, tensor: TensorDesc, region: Region) -> None:
        """Rounds a FLOAT32 result to the output's type."""
        if made[1] != region:
            self._copy("CAST", made, (tensor, region))

    def pairwise(self, name: str, a: Operand, b: Operand, output: Operand) -> None:
        """An element-wise operator of two operands, of which the second is broadcast."""
        small, sizes = b[0], output[0].sizes
        strides = [
            0 if own == 1 and size > 1 else step
            for own, size, step in zip(small.sizes, sizes, small.element_strides, strict=True)
        ]
        wide = dataclasses.replace(small, sizes=tuple(sizes), strides=tuple(strides))
        desc = operator_desc(name, ATensor=a[0], BTensor=wide, OutputTensor=output[0])
        self.builder.operator(desc, [a[1], b[1]], [output[1]])

    def total(self, terms: Operand, output: Operand) -> None:
        """Sums over the axes along which the output has size 1."""
        axes = [axis for axis, size in enumerate(output[0].sizes) if size == 1]
        if not axes:  # a sum of one term: denormals count as zero there too, and zero has no sign
            zero = self.scratch((1,) * len(output[0].sizes))
            fill = operator_desc("FILL_VALUE_CONSTANT", OutputTensor=zero[0], ValueDataType=DataType.FLOAT32, Value=0.0)
            self.builder.operator(fill, [], [zero[1]])
            self.pairwise("ELEMENT_WISE_ADD", terms, zero, output)
            return
        desc = operator_desc(
            "REDUCE",
            Function=ReduceFunction.SUM,
            InputTensor=terms[0],
            OutputTensor=output[0],
            AxisCount=len(axes),
            Axes=axes,
        )
        self.builder.operator(desc, [terms[1]], [output[1]])

    def quotient(self, variance: Operand, numerator: Operand, output: Operand, epsilon: float) -> None:
        kernel = lower_elementwise_shader(
            self.builder.operator_name,
            "batch_factor",
            (variance[0], numerator[0], output[0]),
            self.builder.target,
            (float32_bits(epsilon),),
        )
        self.builder.launch(kernel, [variance[1], numerator[1]], [output[1]], label="quotient")

    def _copy(self, name: str, source: Operand, output: Operand) -> None:
        desc = operator_desc(name, InputTensor=source[0], OutputTensor=output[0])
        self.builder.operator(desc, [source[1]], [output[1]])


@lowering(BatchNormalizationGrad)
def lower(desc: BatchNormalizationGrad, target: Target) -> Program:
    """The program of a checked description."""
    steps = _ScratchSteps(desc, target)
    reads, writes = steps.builder.reads, steps.builder.writes
    x, gradient, mean, variance, scale = (
        steps.float32(getattr(desc, name), reads[name])
        for name in ("input_tensor", "input_gradient_tensor", "mean_tensor", "variance_tensor", "scale_tensor")
    )
    outputs = {name: (getattr(desc, name), region) for name, region in writes.items()}
    of_values, of_scale, of_bias = (steps.result(*outputs[name]) for name in outputs)
    parameters = tuple(desc.mean_tensor.sizes)
    factor, total = steps.scratch(parameters), steps.scratch(parameters)
    terms = steps.scratch(tuple(desc.input_tensor.sizes))
    steps.quotient(variance, scale, factor, desc.epsilon)
    steps.pairwise("ELEMENT_WISE_SUBTRACT", x, mean, terms)
    steps.pairwise("ELEMENT_WISE_MULTIPLY", gradient, terms, terms)
    steps.total(terms, total)
    steps.quotient(variance, total, of_scale, desc.epsilon)
    steps.total(gradient, of_bias)
    steps.pairwise("ELEMENT_WISE_MULTIPLY", gradient, factor, of_values)
    for made, output in zip((of_values, of_scale, of_bias), outputs.values(), strict=True):
        steps.finish(made, *output)
    return steps.builder.program()
