"""One kernel for the operators of a group: its GLSL source, and how it is launched.

It is an element-wise kernel like those of single operators, with the same access orders out of the same files; only its
``OPERATION`` calls the functions of several operators, one behind the other, each in the form that what is known of its
operands permits (:mod:`dmlvk.graphs.fusion.forms`).
"""

from __future__ import annotations

import dataclasses
import struct

from dmlvk.datatypes import DataType
from dmlvk.errors import ShaderCompilationError
from dmlvk.graphs.fusion import ranges
from dmlvk.graphs.fusion.forms import Form, Preparation, form_of
from dmlvk.graphs.fusion.functions import Function
from dmlvk.graphs.fusion.grouping import Group, computes_with_floats, is_scalar_constant
from dmlvk.graphs.fusion.ranges import ANYTHING, Range, SpecialBits
from dmlvk.graphs.network import Network, NetworkNode, NetworkValue
from dmlvk.graphs.spaces import NodeOperand
from dmlvk.kernels.kernel import ElementwiseKernel, launch_size
from dmlvk.kernels.library import glsl
from dmlvk.kernels.variants import ACCESS_ORDERS, lanes, lines, tile_size, tiles_at_once


@dataclasses.dataclass(frozen=True)
class FusedKernel(ElementwiseKernel):
    """A kernel that was put together for a graph."""

    shader: bytes  # its SPIR-V

    def module(self) -> bytes:
        return self.shader


@dataclasses.dataclass(frozen=True)
class KernelSource:
    """A group in GLSL, with what the launch needs to know."""

    text: str  # the source
    attributes: tuple[int, ...]  # the words behind the operands' places in the push constants


def kernel_source(group: Group, network: Network) -> KernelSource:
    types = group.types
    plan = group.plan
    writer = _FunctionWriter(group, network)
    functions, operation = writer.written()
    inputs, further = range(len(group.inputs)), range(len(group.outputs) - 1)
    before = [
        ("INPUT_COUNT", str(len(inputs))),
        ("FOR_EACH_INPUT(DO, argument)", " ".join(f"DO({number}, argument)" for number in inputs)),
        ("FOR_EACH_FURTHER_OUTPUT(DO, argument)", " ".join(f"DO({number}, argument)" for number in further)),
        ("FURTHER_OUTPUT_COUNT", str(len(further))),
        ("APPLY(OPERAND, lane)", f"OPERATION({', '.join(f'OPERAND({number}, lane)' for number in inputs)})"),
        ("ACCESS_ORDER", str(ACCESS_ORDERS.index(plan.access_order))),
        ("LANES", str(lanes(plan.access_order, types))),
        ("TILE", f"{tile_size(types)}u"),
        ("LINES", str(lines(types))),
        ("TILES", str(tiles_at_once(types))),
        ("ATTRIBUTE_WORDS", str(len(writer.attributes))),
    ]
    names = [*(f"INPUT_{number}" for number in inputs), "OUTPUT", *(f"FURTHER_{number}" for number in further)]
    operands = list(zip(names, (*group.inputs, *group.outputs), strict=True))
    behind = [(name, operand.bits_type.name.lower()) for name, operand in operands]
    behind += [(f"{name}_BITS", str(operand.bits)) for name, operand in operands]
    text = "\n".join(
        [
            "#version 450",
            "#extension GL_GOOGLE_include_directive : require",
            *_defines(before),
            '#include "elementwise/elementwise_operands.glsl"',
            '#include "comparison.glsl"',
            '#include "float32.glsl"',
            *functions,
            *_defines(behind),
            *operation,
            '#include "elementwise/elementwise.glsl"',
            "",
        ]
    )
    return KernelSource(text, tuple(writer.attributes))


def _defines(macros: list[tuple[str, str]]) -> list[str]:
    return [f"#define {name} {value}".rstrip() for name, value in macros]


class _FunctionWriter:
    def __init__(self, group: Group, network: Network) -> None:
        assert group.space is not None  # what is fused has one
        self._group = group
        self._network = network
        self._strides = group.space.strides
        self.attributes = [0] * group.hiding_words
        self._names: dict[tuple[object, ...], str] = {}  # functions without attributes are shared
        self._files: set[str] = set()  # whose own code is there
        self._functions: list[str] = []
        self._lines: list[str] = []  # of the function that calls them
        # What it calls a value that an operator has written, and what is known of that.
        self._values: dict[NetworkValue, tuple[str, Range]] = {}
        self._integers: set[str] = set()  # those values that operators have written as integers
        self._steps: dict[
            tuple[str, str], str
        ] = {}  # values that were prepared, by the preparing function and the value

    def written(self) -> tuple[list[str], list[str]]:
        """The functions of the operators; and the function that calls them, with the macro that calls it."""
        group = self._group
        for number, (node, function) in enumerate(zip(group.nodes, group.functions, strict=True)):
            self._call(number, node, function)
        names = ", ".join(f"x{number}" for number in range(len(group.inputs)))
        parameters = ", ".join(f"{_glsl_type(operand.bits)} x{n}" for n, operand in enumerate(group.inputs))
        outputs = [self._prepared(*self._values[output.value], Preparation.AS_STORED) for output in group.outputs]
        first, *further = [_glsl_type(output.bits) for output in group.outputs]
        whole = [
            *(f"{glsl_type} further_{number};" for number, glsl_type in enumerate(further)),
            f"{first} all_operations({parameters})",
            "{",
            *self._lines,
            *(f"    further_{number} = {name};" for number, name in enumerate(outputs[1:])),
            f"    return {outputs[0]};",
            "}",
            f"#define OPERATION({names}) all_operations({names})",
        ]
        return self._functions, whole

    def _call(self, number: int, node: NetworkNode, function: Function) -> None:
        operands = [
            self._argument(value, NodeOperand(node.index, False, index), data_type)
            for (index, _, value), data_type in zip(node.reads(), function.types, strict=False)
        ]
        if self._group.hiding_words and computes_with_floats(function.types):
            operands = self._hidden(operands)
        form = form_of(function, [known for _, known in operands])
        arguments = [
            _loaded_again(self._prepared(name, known, preparation), data_type)
            for (name, known), preparation, data_type in zip(operands, form.preparations, function.types, strict=False)
        ]
        ((_, tensor, written),) = node.writes()
        bits = tensor.data_type.size_in_bits
        called = self._function(function, form)
        self._lines.append(f"    {_glsl_type(bits)} value_{number} = {called}({', '.join(arguments)});")
        self._values[written] = (f"value_{number}", form.result if bits == 32 else ANYTHING)
        if not computes_with_floats(function.types[-1:]):
            self._integers.add(f"value_{number}")

    def _hidden(self, operands: list[tuple[str, Range]]) -> list[tuple[str, Range]]:
        """Operands of which the compiler does not see that they are integers' results, or equal."""
        names = [name for name, _ in operands]
        made = []
        for number, (name, known) in enumerate(operands):
            earlier = names[:number].count(name)
            is_hidden = earlier > 0 or name in self._integers
            made.append((f"({name} ^ parameters.attributes[{earlier}])" if is_hidden else name, known))
        return made

    def _prepared(self, name: str, known: Range, preparation: Preparation) -> str:
        """A value with its denormals flushed, or with what its stand-ins stand for."""
        steps = []
        flushes = SpecialBits.STAND_IN if preparation is Preparation.AS_STORED else known.denormals
        if preparation is not Preparation.NONE and known.denormals is flushes is not SpecialBits.NOTHING:
            steps.append("without_denormal")
        if preparation is Preparation.AS_STORED and known.nans is SpecialBits.STAND_IN:
            steps.append("canonical_f32")
        for step in steps:
            key = (step, name)
            if key not in self._steps:
                self._steps[key] = f"prepared_{len(self._steps)}"
                self._lines.append(f"    uint {self._steps[key]} = {step}({name});")
            name = self._steps[key]
        return name

    def _argument(self, value: NetworkValue, view: NodeOperand, data_type: DataType) -> tuple[str, Range]:
        """A value that an operator reads as some data type, and what is known of its bits."""
        if value in self._values:
            return self._values[value]
        if is_scalar_constant(self._network, value, self._strides[view]):
            return self._scalar(value, data_type)
        return f"x{self._input_number(value, view, data_type)}", ANYTHING

    def _input_number(self, value: NetworkValue, view: NodeOperand, data_type: DataType) -> int:
        return next(
            number
            for number, operand in enumerate(self._group.inputs)
            if operand.value == value
            and self._strides[operand.view] == self._strides[view]
            and operand.bits == data_type.size_in_bits
        )

    def _scalar(self, value: NetworkValue, data_type: DataType) -> tuple[str, Range]:
        """A constant's only element, as a parameter, and what is known of it."""
        size = data_type.size_in_bytes
        signed = data_type.name.startswith("INT")
        number = int.from_bytes(self._network.constants[value][:size], "little", signed=signed)
        first = len(self.attributes)
        words = max(1, size // 4)
        bits = number & (2 ** (32 * words) - 1)
        self.attributes += struct.unpack(f"<{words}I", bits.to_bytes(4 * words, "little"))
        names = [f"parameters.attributes[{first + word}]" for word in range(words)]
        if words == 1:
            return names[0], ranges.of_constant(bits) if size == 4 else ANYTHING
        return f"uvec2({', '.join(names)})", ANYTHING

    def _function(self, function: Function, form: Form) -> str:
        """The name of a GLSL function, which is written when it is not there yet."""
        key = (function.source.path, function.defines, form.macro, form.order, form.arguments)
        if not function.attributes and key in self._names:
            return self._names[key]
        name = f"operation_{len(self._functions)}"
        defines = function.defines_at(len(self.attributes))
        self.attributes += function.attributes
        inputs = len(function.types) - 1
        parameters = ", ".join(f"VALUE(INPUT_{n}) x{n}" for n in range(inputs))
        arguments = ", ".join((*(f"x{n}" for n in form.order or range(inputs)), *form.arguments))
        code = [function.source.code] if function.source.code and function.source.path not in self._files else []
        self._files.add(function.source.path)
        parts = [
            f"// {function.source.path}",
            *_defines(defines),
            function.source.directives,
            *code,
            f"VALUE(OUTPUT) {name}({parameters})",
            "{",
            f"    return {form.macro}({arguments});",
            "}",
            *(f"#undef {macro}" for macro, _ in defines),
            *(f"#undef {macro}" for macro in function.source.macros),
        ]
        self._functions.append("\n".join(parts))
        self._names[key] = name
        return name


def _loaded_again(name: str, data_type: DataType) -> str:
    """A value as after storing it and loading it as some data type: bits above its width dropped, signs extended.

    Between the operators of a kernel nothing is stored, but everything is as if it were.
    """
    bits = data_type.size_in_bits
    if bits >= 32:
        return name
    if data_type.name.startswith("INT"):
        return f"uint(int({name} << {32 - bits}) >> {32 - bits})"
    return f"({name} & {(1 << bits) - 1:#x}u)"


def _glsl_type(bits: int) -> str:
    return "uvec2" if bits == 64 else "uint"


def fused_kernel(group: Group, network: Network) -> FusedKernel | None:
    """The kernel of a group, compiled; ``None`` when there is no compiler.

    Raises:
        ShaderCompilationError: when the compiler refuses it.
        DeviceLimitError: when there is more work than Vulkan's guaranteed launch sizes can address.
    """
    source = kernel_source(group, network)
    label = " + ".join(node.name for node in group.nodes)
    try:
        shader = glsl.compiled(source.text)
    except ShaderCompilationError as error:
        raise type(error)(f"{label}: {error}") from error
    if shader is None:
        return None
    return FusedKernel(
        variant=f"fused.{len(group.nodes)}.{group.plan.access_order}",
        geometry=group.plan.geometry,
        work_groups=launch_size(label, group.plan.invocations, group.plan.work_group_size),
        work_items=group.plan.work_items,
        attributes=source.attributes,
        work_group_size=group.plan.work_group_size,
        shader=shader,
    )


def operand_pairs_in_place(group: Group) -> set[tuple[int, int]]:
    """The pairs of an input and an output that may share their bytes: equal elements at equal places.

    Of an input that is read in two ways each way must permit it, which the memory plan sees to.
    """
    strides = group.layout.strides
    return {
        (number, position)
        for number, read in enumerate(group.inputs)
        for position, output in enumerate(group.outputs)
        if read.bits == output.bits and strides[number] == strides[-1]
    }
